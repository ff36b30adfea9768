"""The parts of the engine that need no network: slots, scheduler, rows, answer text."""

from types import SimpleNamespace

import pytest

from ocria.errors import EngineError
from ocria.runtime.rows import BUCKETS, StepRows, bucket_of
from ocria.runtime.scheduler import Scheduler
from ocria.runtime.slots import Slots
from ocria.runtime.text import AnswerText


class TestSlots:
    def test_lowest_first_and_never_the_dummy(self):
        slots = Slots(3)
        assert [slots.acquire(name) for name in "abc"] == [1, 2, 3]
        slots.release(2, "b")
        slots.release(1, "a")
        assert slots.acquire("d") == 1
        assert not slots.is_free(0)
        slots.check_integrity()

    def test_released_exactly_once_by_its_owner(self):
        slots = Slots(2)
        slot = slots.acquire("a")
        with pytest.raises(EngineError, match="'b'"):
            slots.release(slot, "b")
        slots.release(slot, "a")
        with pytest.raises(EngineError, match="nobody"):
            slots.release(slot, "a")
        with pytest.raises(EngineError):
            slots.release(0, "a")
        slots.check_integrity(idle=True)

    def test_none_left(self):
        slots = Slots(1)
        slots.acquire("a")
        with pytest.raises(EngineError, match="no free slot"):
            slots.acquire("b")
        with pytest.raises(EngineError, match="still owned"):
            slots.check_integrity(idle=True)

    def test_random(self, rng):
        slots, owned = Slots(7), {}
        for step in range(500):
            if owned and (rng.random() < 0.5 or not slots.free):
                owner = list(owned)[rng.integers(len(owned))]
                slots.release(owned.pop(owner), owner)
            else:
                owned[step] = slots.acquire(step)
            assert slots.free + len(owned) == 7
            assert len(set(owned.values())) == len(owned)
            slots.check_integrity(idle=not owned)


def queued(name, prompt, output=5):
    bounds = SimpleNamespace(max_tokens=output)
    return SimpleNamespace(
        id=name, prefill_len=prompt, rows=prompt + output, bounds=bounds, phase="waiting", slot=None, filled=0
    )


class TestScheduler:
    def plan(self, scheduler, slots, max_len=1000):
        plan = scheduler.plan(slots, max_len)
        for chunk in plan.prefill:
            chunk.sequence.filled += chunk.count
            if chunk.sequence.filled == chunk.sequence.prefill_len:
                chunk.sequence.phase = "decode"
        return plan

    def names(self, items):
        return [getattr(item, "sequence", item).id for item in items]

    def test_first_come_first_served(self):
        scheduler, slots = Scheduler(prefill_rows=100, group=1), Slots(2)
        for name in "abc":
            scheduler.add(queued(name, 4))
        plan = self.plan(scheduler, slots)
        assert self.names(plan.admitted) == self.names(plan.prefill) == ["a", "b"]
        assert not plan.decode
        plan = self.plan(scheduler, slots)
        assert (self.names(plan.admitted), self.names(plan.decode)) == ([], ["a", "b"])
        first = plan.decode[0]
        scheduler.remove(first)
        slots.release(first.slot, "a")
        plan = self.plan(scheduler, slots)
        assert (self.names(plan.admitted), self.names(plan.decode)) == (["c"], ["b"])

    def test_long_prompts_come_in_chunks(self):
        scheduler, slots = Scheduler(prefill_rows=8, group=1), Slots(3)
        for name, prompt in (("a", 19), ("b", 3), ("c", 2)):
            scheduler.add(queued(name, prompt))
        rows = []
        while not rows or rows[-1]:
            rows.append([(c.sequence.id, c.start, c.count) for c in self.plan(scheduler, slots).prefill])
        assert rows[:3] == [[("a", 0, 8)], [("a", 8, 8)], [("a", 16, 3), ("b", 0, 3)]]
        assert rows[3] == [("c", 0, 2)]

    def test_padded_rows_stay_within_the_limit(self, rng):
        scheduler, slots = Scheduler(prefill_rows=50, group=1), Slots(20)
        sequences = [queued(i, int(rng.integers(1, 80))) for i in range(20)]
        for sequence in sequences:
            scheduler.add(sequence)
        while any(s.filled < s.prefill_len for s in sequences):
            chunks = self.plan(scheduler, slots).prefill
            assert 0 < len(chunks) * max(c.count for c in chunks) <= 50
            assert all(c.count > 0 for c in chunks)

    def test_groups_wait_for_each_other(self):
        scheduler, slots = Scheduler(prefill_rows=100, group=3), Slots(4)
        for name in "abcdefg":
            scheduler.add(queued(name, 1))
        assert len(self.plan(scheduler, slots).admitted) == 4

        def end(count):
            for sequence in list(scheduler.running.values())[:count]:
                scheduler.remove(sequence)
                slots.release(sequence.slot, sequence.id)

        end(2)
        assert not self.plan(scheduler, slots).admitted
        end(1)
        assert self.names(self.plan(scheduler, slots).admitted) == ["e", "f", "g"]
        scheduler.add(queued("h", 1))
        assert not slots.free
        end(1)
        assert self.names(self.plan(scheduler, slots).admitted) == ["h"], "the last ones do not wait for more"

    def test_one_that_does_not_fit_holds_the_queue(self):
        scheduler, slots = Scheduler(prefill_rows=100, group=1), Slots(2)
        for name, prompt in (("a", 3), ("large", 30), ("b", 3)):
            scheduler.add(queued(name, prompt))
        assert self.names(self.plan(scheduler, slots, max_len=10).admitted) == ["a"]
        assert not self.plan(scheduler, slots, max_len=10).admitted

    def test_removed_while_waiting(self):
        scheduler = Scheduler(prefill_rows=100, group=1)
        sequence = queued("a", 3)
        scheduler.add(sequence)
        scheduler.remove(sequence)
        assert not scheduler.waiting
        assert sequence.phase == "done"


class TestRows:
    def test_consecutive_slots_are_a_run(self):
        rows = StepRows.choose((2, 3, 4), "cpu")
        assert rows.first_slot == 2
        assert rows.slots.tolist() == [2, 3, 4]

    def test_a_few_others_are_computed_along(self):
        rows = StepRows.choose((1, 2, 4, 5), "cpu")
        assert rows.first_slot == 1
        assert rows.slots.tolist() == [1, 2, 3, 4, 5]
        assert rows.row_of == {1: 0, 2: 1, 4: 3, 5: 4}

    def test_scattered_slots_are_gathered(self):
        rows = StepRows.choose((1, 9), "cpu")
        assert rows.first_slot is None
        assert rows.row_of == {1: 0, 9: 1}

    def test_buckets_are_padded_with_the_dummy(self):
        rows = StepRows.bucketed((1, 4, 9), "cpu")
        assert rows.slots.tolist() == [1, 4, 9, 0]
        assert rows.row_of == {1: 0, 4: 1, 9: 2}
        assert rows.first_slot is None

    def test_every_count_has_a_bucket(self):
        sizes = [bucket_of(count) for count in range(1, 400)]
        assert all(size >= count for count, size in enumerate(sizes, start=1))
        assert sizes == sorted(sizes)
        assert set(sizes[: max(BUCKETS)]) == set(BUCKETS)


class TestText:
    def drive(self, tokenizer, data, stops, rng):
        answer, pieces = AnswerText(tokenizer, stops), []
        ids = list(data)
        while ids and not answer.stopped:
            count = int(rng.integers(1, 5))
            answer.push(ids[:count])
            del ids[:count]
            pieces.append(answer.take())
        answer.finish()
        pieces.append(answer.take())
        assert "".join(pieces) == answer.all()
        return answer

    def test_text_without_stops(self, tokenizer, rng):
        text = "Über “naïve” 文档 🙂"
        assert self.drive(tokenizer, text.encode(), (), rng).all() == text

    @pytest.mark.parametrize(
        ("stops", "expected"),
        [
            (("</end>",), "one </en two "),
            (("</end>", "two"), "one </en "),
            (("zz",), None),
            (("🙂",), "one </en two </end> three "),
        ],
    )
    def test_stops(self, tokenizer, rng, stops, expected):
        text = "one </en two </end> three 🙂 four"
        for _ in range(10):
            answer = self.drive(tokenizer, text.encode(), stops, rng)
            assert answer.all() == (text if expected is None else expected)
            assert answer.stopped == (expected is not None)

    def test_what_may_become_a_stop_is_held_back(self, tokenizer):
        answer = AnswerText(tokenizer, ("stop",))
        answer.push(b"ab st")
        assert answer.take() == "ab "
        answer.push(b"ay")
        assert answer.take() == "stay"
        answer.push(b" sto")
        answer.finish()
        assert answer.take() == " sto"
