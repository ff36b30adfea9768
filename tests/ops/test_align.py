"""Copied drafts: both forms against the definition, worked examples of answers that stray, and what is not theirs."""

import pytest
import torch

from ocria.errors import EngineError
from ocria.ops.align import CONTEXT, LEAST, align, align_reference, recur, recur_reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
JUNK = 10**9


def draw(seed, batch, slots, max_len, longest, tokens):
    """Answers that stray from their references, at every stage; what is nobody's memory holds tokens that might match;
    padding and slots that are not live among the rest."""
    print("seed", seed)
    g = torch.Generator().manual_seed(seed)

    def below(n, *shape):
        return torch.randint(0, n, shape, generator=g)

    history, reference = below(tokens, slots, max_len), below(tokens, slots, longest)
    reference_len, offset = below(longest + 1, slots), below(9, slots) - 12
    first, length, anchor = below(max_len // 2, slots), torch.zeros(slots, dtype=torch.int64), below(tokens, slots)
    for slot in range(slots):
        text = below(tokens, int(reference_len[slot]))
        reference[slot, : len(text)] = text
        answer = text.tolist()
        for _ in range(int(below(6, 1))):  # tokens lost, added, exchanged, and parts moved
            at, end = sorted(below(len(answer) + 1, 2).tolist())
            answer = [
                answer[:at] + answer[end:],
                answer[:at] + below(tokens, end - at).tolist() + answer[at:],
                answer[:at] + below(tokens, end - at).tolist() + answer[end:],
                answer[end:] + answer[:at] + answer[at:end],
            ][int(below(4, 1))]
        room = max_len - 1 - int(first[slot])
        answer = answer[: int(below(min(room, len(answer)) + 1, 1))]
        length[slot] = first[slot] + len(answer)
        if answer:
            anchor[slot] = answer[-1]
            history[slot, first[slot] + 1 : length[slot]] = torch.tensor(answer[:-1], dtype=torch.int64)
    chosen = torch.cat([torch.randperm(slots - 1, generator=g)[: batch - 2] + 1, torch.zeros(2, dtype=torch.int64)])
    live = (below(5, batch) > 0) & (chosen > 0)
    first, length = first[chosen], length[chosen]
    first[-1], length[-1] = 3, max_len + 5  # the dummy's numbers mean nothing
    return (chosen, anchor[chosen], length, first, live, history), (reference, reference_len, offset)


def run(form, arguments, device="cpu"):
    """Results, and the offsets where there are some."""
    moved = [x.clone().to(device) if isinstance(x, torch.Tensor) else x for x in arguments]
    results = form(*moved)
    written = [moved[8]] if len(moved) > 8 else []
    return [x.cpu() for x in (*results, *written)]


def same(got, expected):
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


SIZES = [(2, 5, 6, 33, 1, 3), (3, 9, 12, 70, 57, 5), (8, 7, 9, 41, 64, 2), (17, 4, 4, 90, 131, 60)]


@pytest.mark.parametrize(("rows", "batch", "slots", "max_len", "longest", "tokens"), SIZES)
def test_forms_agree(rows, batch, slots, max_len, longest, tokens):
    seed = torch.seed() % 2**32
    proposed = 0
    for i in range(12 if longest > 1 else 60):  # a text of one token is rarely proposed
        seen, text = draw(seed + i, batch, slots, max_len, longest, tokens)
        expected = run(align_reference, (*seen, *text, rows))
        proposed += int(expected[1].sum())
        same(run(align.torch_form, (*seen, *text, rows)), expected)
        same(run(align.kernel, (*seen, *text, rows), DEVICE), expected)
        kv_len = int(seen[2].masked_fill(~seen[4], 0).max()) + rows
        expected = run(recur_reference, (*seen, rows, kv_len))
        same(run(recur.torch_form, (*seen, rows, kv_len)), expected)
        same(run(recur.kernel, (*seen, rows, kv_len), DEVICE), expected)
    assert proposed > 0


def test_a_text_longer_than_a_block_of_the_kernel():
    seed = torch.seed() % 2**32
    seen, text = draw(seed, 4, 5, 1100, 1500, 7)
    expected = run(align_reference, (*seen, *text, 9))
    same(run(align.torch_form, (*seen, *text, 9)), expected)
    same(run(align.kernel, (*seen, *text, 9), DEVICE), expected)
    expected = run(recur_reference, (*seen, 9, 1200))
    same(run(recur.torch_form, (*seen, 9, 1200)), expected)
    same(run(recur.kernel, (*seen, 9, 1200), DEVICE), expected)


def codes(text):
    return list(text.encode())


class Copyist:
    """One request whose answer follows a reference, step by step."""

    def __init__(self, reference, prompt=4, rows=9, form=align.torch_form):
        self.rows, self.form, self.first = rows, form, prompt - 1
        self.reference = torch.full((2, len(reference) + 3), JUNK)
        self.reference[1, : len(reference)] = torch.tensor(codes(reference))
        self.lengths = torch.tensor([0, len(reference)])
        self.offset = torch.tensor([0, -1 - self.first])
        self.history = torch.full((2, 500), JUNK)

    def drafts(self, answer):
        """What is proposed behind this much of the answer."""
        tokens = codes(answer)
        anchor = tokens[-1] if tokens else 77  # a token of the prompt, whatever it is
        self.history[1, self.first + 1 :][: len(tokens[:-1])] = torch.tensor(tokens[:-1], dtype=torch.int64)
        seen = (torch.tensor([1]), torch.tensor([anchor]), torch.tensor([self.first + len(tokens)]))
        seen = (*seen, torch.tensor([self.first]), torch.tensor([True]), self.history)
        tokens, count = self.form(*seen, self.reference, self.lengths, self.offset, self.rows)
        return bytes(tokens[0, : count[0]].tolist()).decode()

    def read(self, answer):
        """Every draft and the steps it took until the whole answer was written."""
        done, all_drafts = 0, []
        while done < len(answer):
            drafts = self.drafts(answer[:done])
            all_drafts.append(drafts)
            held = 0
            while held < len(drafts) and done + held < len(answer) and drafts[held] == answer[done + held]:
                held += 1
            done += held + 1
        return all_drafts


def test_a_reference_that_is_right_is_proposed_from_its_beginning_to_its_end():
    copyist = Copyist("what the text layer says")
    assert copyist.read("what the text layer says") == ["what the", "text lay", "r says"]
    assert copyist.drafts("what the text layer says") == ""


@pytest.mark.parametrize(
    ("reference", "answer", "then"),
    [
        ("the quick brown fox", "the qu1", "ick brow"),  # one more, as far as is known
        ("the quick brown fox", "the qu1i", "ck brown"),
        ("the quick brown fox", "the qu1c", "k brown "),  # it was another
        ("the quick brown fox", "the quc", "k brown "),  # one fewer
        ("the quick brown fox", "the quik", " brown f"),
        ("the quick brown fox", "the quu", "ick brow"),  # one twice
        ("the quick brown fox", "the **very** ", "quick br"),  # many more: the place waits
        ("the quick brown fox", "the brown", " fox"),  # a word left out
        ("one two three four five", "four five one t", "wo three"),  # another order
        ("a=1; a=2; a=3; a=4;", "a=1; a=2; a=", "3; a=4;"),  # repeats: the place at hand
        ("x 10 y 10 z 10 w", "x 10 y 10", " z 10 w"),
        ("abcd 1 abcd 2 abcd long one here", "abcd long o", "ne here"),  # a long match elsewhere
        ("nothing like it", "QWERTZ", "nothing "),  # no match
        ("", "QWERTZ", ""),
    ],
)
@pytest.mark.parametrize("form", [align_reference, align.torch_form])
def test_an_answer_that_strays(reference, answer, then, form):
    copyist = Copyist(reference, form=form)
    done = 0
    while done < len(answer):  # as steps would come
        drafts = copyist.drafts(answer[:done])
        held = 0
        while held < len(drafts) and done + held < len(answer) - 1 and drafts[held] == answer[done + held]:
            held += 1
        done = min(done + held + 1, len(answer))
    assert copyist.drafts(answer) == then


def test_a_wrong_letter_costs_a_step_or_two():
    reference = "".join(chr(97 + i % 26) for i in range(64))
    answer = reference[:20] + "#" + reference[21:40] + reference[41:]
    # 8 drafts and the bonus a step: 64 tokens are 8 steps. A fault ends a step early, and the letter that was exchanged
    # takes another step until its place is known again.
    assert len(Copyist(reference).read(answer)) <= 8 + 2 + 1


def test_after_a_restart_the_answer_goes_on_where_it_was():
    """The tokens before the restart are part of the prompt: not in the answer, but counted by the offset."""
    reference = "alpha beta gamma delta"
    copyist = Copyist(reference, prompt=20)
    copyist.offset[1] = -1 - copyist.first + len("alpha b")
    assert copyist.drafts("") == "eta gamm"
    assert copyist.drafts("et") == "a gamma "


def test_recurrence_needs_a_match_and_takes_the_latest():
    text = "row 1: abc; row 2: def; row 2: ghi; row 2"
    history = torch.full((3, 90), JUNK)
    history[2, 11 : 10 + len(text)] = torch.tensor(codes(text[:-1]))

    def drafts(length, anchor, rows=9):
        one = (torch.tensor([2]), torch.tensor([ord(anchor)]), torch.tensor([length]), torch.tensor([10]))
        tokens, count = recur(*one, torch.tensor([True]), history, rows, length + rows)
        return bytes(tokens[0, : count[0]].tolist()).decode()

    assert drafts(10 + len(text), "2") == ": ghi; r"
    assert drafts(10 + len("row 1: abc; row "), " ") == "1: abc; "
    assert drafts(10 + len("row 1: abc; r"), "r") == ""  # nothing ended so before
    assert drafts(10, "z") == ""  # nothing is written yet
    history[2, 11:31] = torch.tensor(codes("ab" * 10))
    assert drafts(30, "b") == "abababab"
    history[2, 11:31] = torch.tensor(codes("." * 20))
    assert drafts(11 + LEAST, ".") == "........"
    assert drafts(10 + LEAST, ".") == ""


def test_nothing_but_the_offset_of_live_slots_is_written():
    seen, text = draw(torch.seed() % 2**32, 6, 8, 50, 40, 4)
    before = [x.clone() for x in (*seen, *text)]
    align(*seen, *text, 5)
    recur(*seen, 5, 50)
    for now, old in zip((*seen, *text[:2]), before[:8], strict=True):
        assert torch.equal(now, old)
    slots, live = seen[0], seen[4]
    untouched = torch.ones(8, dtype=torch.bool).index_fill(0, slots[live], False)
    assert torch.equal(text[2][untouched], before[8][untouched])


def test_a_step_of_one_row_has_no_drafts():
    seen, text = draw(1, 4, 5, 20, 20, 4)
    for form in (align, align.kernel):
        with pytest.raises(EngineError, match="1 rows"):
            form(*seen, *text, 1)
    for form in (recur, recur.kernel):
        with pytest.raises(EngineError, match="1 rows"):
            form(*seen, 1, 20)


def test_registration():
    seen, text = draw(2, 5, 6, 30, 20, 4)
    moved, kept = ([x.to(DEVICE) for x in part] for part in (seen, text))
    torch.library.opcheck(align.kernel, (*moved, *kept, 4))
    torch.library.opcheck(recur.kernel, (*moved, 4, 30))


@pytest.mark.parametrize("which", ["torch_form", "kernel"])
def test_they_compile_as_one_graph(which):
    torch._dynamo.reset()
    seen, text = draw(torch.seed() % 2**32, 5, 6, 60, 50, 3)
    device = DEVICE if which == "kernel" else "cpu"

    def both(ruler, *arguments):
        copied = getattr(align, which)(*arguments, 4)
        return *copied, *getattr(recur, which)(*arguments[:6], 4, ruler.shape[0])

    compiled = torch.compile(both, fullgraph=True, backend="aot_eager", dynamic=True)
    for kv_len in (60, 55):
        arguments = [x.clone().to(device) for x in (*seen, *text)]
        got = [*(x.cpu() for x in compiled(torch.empty(kv_len), *arguments)), arguments[8].cpu()]
        tokens, count, offset = run(align_reference, (*seen, *text, 4))
        same(got, [tokens, count, *run(recur_reference, (*seen, 4, kv_len)), offset])


@pytest.mark.parametrize("form", [align_reference, align.torch_form])
def test_the_context_is_as_long_as_it_says(form):
    """Of two places the nearer one is taken when CONTEXT tokens match there, however many do at the other; when two
    fewer do, the other."""
    end = "abcdefghijklmnopqrstuvwxyz"[-CONTEXT:]
    for before, then in (("", "2nd"), ("y", "2nd"), ("x", "2nd")):
        copyist = Copyist(f"x{end}1st....{before}{end}2nd", form=form)
        copyist.offset[1] = len(f"{end}1st....{before}") - 1 - copyist.first
        assert copyist.drafts(f"x{end}") == then
    copyist = Copyist(f"x{end}1st....{end[2:]}2nd", form=form)
    copyist.offset[1] = len(f"{end}1st....") - 3 - copyist.first
    assert copyist.drafts(f"x{end}") == "1st...." + end[2]
