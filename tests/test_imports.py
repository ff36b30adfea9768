"""What may import what, and what `import ocria` must not load."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PACKAGE = Path(__file__).parents[1] / "ocria"
LEAVES = {"errors", "events", "spinning"}

# Every part may import itself, the leaves, and these.
ALLOWED = {
    "errors": set(),
    "events": set(),
    "spinning": set(),
    "ops": set(),
    "model": {"ops", "quant"},  # of quant the leaves alone, as `runtime` and `spec`: see QUANT_LEAVES
    "quant": {"model", "spec", "ops", "runtime", "document"},
    "spec": {"model", "ops", "quant"},
    "runtime": {"spec", "model", "ops", "quant"},
    "document": {"runtime", "model"},
    "train": {"model", "spec", "ops", "runtime", "document"},
    "assets": set(),
    "progress": set(),
    "password": {"progress"},
    "record": set(),
    "config": set(),
    "doctor": {"document", "model", "spec", "runtime", "ops"},
    "batch": {"document", "model"},
    "benchmark": {"document", "model", "spec", "runtime", "quant"},
    "cluster": {"batch", "document", "progress"},
    "cli": {
        "batch", "cluster", "document", "progress", "doctor", "password", "config", "quant", "record", "benchmark",
        "serve",
    },
    "serve": {"document"},
    "__main__": {"cli"},
    "__init__": {"batch", "document"},
}
QUANT_LEAVES = ("formats", "codes", "tensors", "round", "fuse", "check", "recipe")
"""Of `quant`, what knows weights and files but no network: all that loading and running may import."""
HEAVY = {"torch", "transformers", "pymupdf", "pymupdf4llm", "textual", "numpy", "PIL", "rich"}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path):
    """The first name under `ocria` that a file belongs to."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_names(path, *, module_level=False):
    """Dotted names that a file imports, anywhere or at module level only, relative ones resolved."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(_at_module_level(tree)) if module_level else list(ast.walk(tree))
    package = ("ocria", *path.relative_to(PACKAGE).parts[:-1])
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else ())))
            # `from ocria import errors` names the module errors.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _at_module_level(tree):
    """Statements that run on import: everything but function bodies and TYPE_CHECKING blocks."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _at_module_level(node)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_one_way(path):
    part = part_of(path)
    assert part in ALLOWED, f"{part} has no place in the design"
    allowed = ALLOWED[part] | LEAVES | {part}
    for name in imported_names(path):
        parts = name.split(".")
        assert parts[0] != "ocria_tui", "nothing here imports the app"
        if parts[0] != "ocria" or len(parts) < 2 or not _is_part(parts[1]):
            continue
        assert parts[1] in allowed, f"{path.name} must not import {name}"


def _is_part(name):
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "document").rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_documents_reach_the_engine_through_the_reader_alone(path):
    names = [n for n in imported_names(path) if n.startswith(("ocria.runtime", "ocria.model"))]
    assert path.name == "reader.py" or not names, names


def quant_leaves():
    quant = PACKAGE / "quant"
    return [*(quant / "formats").glob("*.py"), *(quant / f"{name}.py" for name in QUANT_LEAVES if name != "formats")]


def test_the_app_is_imported_by_name_in_one_place():
    """It needs packages that `ocria` does without, so only the command that runs it looks for it."""
    named = [path for path in modules() if "ocria_tui" in path.read_text(encoding="utf-8")]
    assert [str(path.relative_to(PACKAGE)) for path in named] == [str(Path("cli", "tui.py"))]


def test_how_weights_are_stored_is_known_without_a_network():
    """Loading asks the leaves of `quant`, which must not lead back to it."""
    allowed = ("ocria.model.weights", "ocria.model.files", "ocria.model.strict", "ocria.ops.quant_grid", "ocria.quant")
    packages = ("ocria.model", "ocria.spec", "ocria.ops", "ocria.runtime", "ocria.document", "ocria.quant")
    for path in filter(Path.is_file, quant_leaves()):
        names = [name for name in imported_names(path) if name.startswith(packages)]
        assert all(name.startswith(allowed) and _is_leaf(name) for name in names), f"{path.name} imports {names}"


@pytest.mark.parametrize("part", ["model", "spec", "runtime"])
def test_networks_know_the_leaves_of_quant_alone(part):
    for path in (PACKAGE / part).rglob("*.py"):
        assert all(_is_leaf(name) for name in imported_names(path)), path.name


def _is_leaf(name):
    """Whether a dotted name is none of `quant`, or one of its leaves."""
    parts = name.split(".")
    return parts[:2] != ["ocria", "quant"] or (len(parts) > 2 and parts[2] in QUANT_LEAVES)


@pytest.mark.parametrize("part", ["document", "cli", "errors", "events", "progress", "doctor"])
def test_torch_is_never_imported_at_module_level(part):
    for path in modules():
        if part_of(path) == part:
            heads = {name.split(".")[0] for name in imported_names(path, module_level=True)}
            assert not heads & {"torch", "transformers", "textual", "triton"}, path


def loaded_after(statement):
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(json.loads(output.splitlines()[-1]))


def test_import_is_light():
    assert not loaded_after("import ocria, ocria.errors, ocria.events, ocria.cli") & HEAVY


def test_help_is_light():
    run = (
        "import contextlib, io, ocria.cli\n"
        "output = io.TextIOWrapper(io.BytesIO())\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(output):\n"
        "    ocria.cli.main(['parse', '--help'])\n"
        "output.flush()\n"
        "assert b'--output-dir' in output.buffer.getvalue()"
    )
    assert not loaded_after(run) & HEAVY


def test_text_mode_never_loads_torch(tmp_path):
    import pymupdf

    with pymupdf.open() as pdf:
        pdf.new_page().insert_text((72, 90), "A page with words on it, enough to be read.")
        pdf.save(tmp_path / "a.pdf")
    loaded = loaded_after(f"import ocria\nassert 'words' in ocria.parse({str(tmp_path / 'a.pdf')!r}).markdown")
    assert not loaded & {"torch", "transformers", "textual"}


def test_public_names():
    import ocria

    for name in ocria.__all__:
        assert getattr(ocria, name) is not None
    assert set(ocria.__all__) <= set(dir(ocria))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ocria.nonsense


def test_the_engine_loads_without_the_compiler():
    """Kernels and compiled steps need it; a run on the CPU does not, and it takes two seconds to import."""
    code = "import sys, ocria.runtime.engine; print(*{'torch._dynamo', 'torch._inductor', 'triton'} & set(sys.modules))"
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    if not torch.cuda.is_available():
        assert run.stdout.split() == []
