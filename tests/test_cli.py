"""The command line: help within a second and without heavy imports, exit codes, one clear line for every bad input."""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main

from legal_rl.cli import app, main

HEAVY = ("torch", "ray", "verl", "vllm", "faiss", "transformers", "numpy", "fastapi", "bm25s")

NORM = {
    "id": "law/刑法@2020-12-26#264",
    "kind": "law",
    "law_title": "中华人民共和国刑法",
    "law_key": "刑法",
    "version_date": "2020-12-26",
    "effective_date": "2021-03-01",
    "article_no": 264,
    "article_sub": 0,
    "article_label": "第二百六十四条",
    "part": "",
    "chapter": "第五章 侵犯财产罪",
    "section": "",
    "text": "盗窃公私财物，数额较大的，处三年以下有期徒刑、拘役或者管制，并处或者单处罚金。",
    "is_latest": True,
    "superseded_by": None,
    "category": "法律",
}


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs `legal-rl …` in this process; a traceback would come out of `main` as an exception and fail the test."""

    def run(*arguments: object) -> Answer:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Answer(int(stop.value.code or 0), out, err)

    return run


@pytest.fixture
def refused(call: Callable[..., Answer]) -> Callable[..., str]:
    """Runs a command that must fail with exit code 1 and exactly one line on standard error; gives that line."""

    def run(*arguments: object) -> str:
        answer = call(*arguments)
        assert answer.code == 1, answer
        assert answer.err.count("\n") == 1 and answer.err.startswith("error: "), answer.err
        return answer.err.strip()

    return run


def shell(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Runs `python -m legal_rl …` as a user does."""
    command = [sys.executable, "-m", "legal_rl", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def every_command() -> list[tuple[str, ...]]:
    """("plan",), ("index", "build"), … from the application itself."""
    found: list[tuple[str, ...]] = []

    def walk(command, path: tuple[str, ...]) -> None:
        for name, below in getattr(command, "commands", {}).items():
            walk(below, (*path, name))
        if path and not getattr(command, "commands", {}):
            found.append(path)

    walk(typer.main.get_command(app), ())
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A norms file of two articles."""
    file = tmp_path_factory.mktemp("corpus") / "norms.jsonl"
    second = NORM | {"id": "law/刑法@2020-12-26#266", "article_no": 266, "article_label": "第二百六十六条"}
    file.write_text("".join(json.dumps(n, ensure_ascii=False) + "\n" for n in (NORM, second)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def index(corpus: Path) -> Path:
    """An index over that file, made by the command itself."""
    folder = corpus.parent / "index"
    result = shell("index", "build", folder, "--corpus", corpus, "--encoder", "none")
    assert result.returncode == 0, result.stderr
    assert "2 articles" in result.stdout
    return folder


# -- help -------------------------------------------------------------------------------------------------------------


def test_the_commands_are_the_ones_documented():
    names = {" ".join(path) for path in every_command()}
    assert {
        "quickstart", "plan", "sft", "grpo", "export", "doctor", "retrieve", "index build", "index info",
        "data synthesize", "data inspect", "serve retrieval", "eval retrieval", "eval seeds", "trace view",
    } <= names  # fmt: skip


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_help_shows_an_example_that_names_the_command(call, path):
    answer = call(*path, "--help")
    text = re.sub(r"\s+", " ", answer.out)
    assert answer.code == 0
    assert re.search(rf"Examples?:\s+legal-rl {' '.join(path)}", text), text


def test_help_answers_within_a_second_and_imports_nothing_heavy():
    code = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print('HEAVY', [n for n in {HEAVY!r} if n in sys.modules], file=sys.stderr))\n"
        "from legal_rl.cli import main\nmain(['--help'])"
    )
    times = []
    for _ in range(3):  # The fastest of three: other work on the machine is not the command's fault.
        started = time.monotonic()
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        times.append(time.monotonic() - started)
    assert (result.returncode, result.stderr.strip()) == (0, "HEAVY []")
    assert min(times) < 1.0, times


def test_help_of_every_command_imports_nothing_heavy():
    code = (
        "import sys\nfrom legal_rl.cli import main\n"
        f"for path in {every_command()!r}:\n"
        "    try:\n        main([*path, '--help'])\n    except SystemExit as stop:\n        assert not stop.code\n"
        f"print('HEAVY', [n for n in {HEAVY!r} if n in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr.strip()) == (0, "HEAVY []")


def test_version(call):
    assert call("--version").out.startswith("legal-rl ")


# -- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("plan",), ("index", "build", "--nonsense"), ("retrieve", "x", "-k", "many")]
)
def test_wrong_use_is_exit_code_2(call, arguments):
    answer = call(*arguments)
    assert answer.code == 2 and "Traceback" not in answer.err and "Usage" in answer.err


def test_a_plan_is_exit_code_0_and_json_for_scripts(call):
    answer = call("plan", "h20_4gpu", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["ok"] is True


def test_a_plan_that_does_not_fit_is_exit_code_1(call):
    answer = call("plan", "single_gpu", "layout.gpu_memory_gib=2", "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["problems"]


# -- configuration ----------------------------------------------------------------------------------------------------


def test_unknown_key(refused):
    assert "unknown key grpo.group_sze; did you mean group_size?" in refused("quickstart", "grpo.group_sze=8")


@pytest.mark.parametrize("command", ["plan", "sft", "grpo"])
def test_no_such_config_names_the_ones_there_are(refused, command):
    assert "give a .yaml file or one of: h20_4gpu, quickstart" in refused(command, "nonsense")
    assert "missing.yaml" in refused(command, "missing.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", "line 1 not valid YAML"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"- 1\n", "must be a mapping"),
        (b"seed: -1\n", "seed: Input should be greater than or equal to 0"),
        (b"trainer: {}\n", "unknown key trainer"),
    ],
)
def test_a_config_file_that_cannot_be_used(refused, tmp_path, content, message):
    file = tmp_path / "mine.yaml"
    file.write_bytes(content)
    line = refused("plan", file)
    assert f"{file}:" in line and message in line


def test_a_rule_between_keys_is_told_without_the_whole_section(refused):
    line = refused("plan", "h20_4gpu", "grpo.prompts_per_step=32")
    assert line.endswith("32 prompts x 8 rollouts do not divide over 3 ranks; set prompts_per_step to 30 or 33")


def test_unknown_stage(refused, tmp_path):
    line = refused("quickstart", "--until", "nothing", f"run_dir={tmp_path / 'run'}")
    assert "no stage 'nothing'; stages are knowledge" in line
    assert not (tmp_path / "run").exists()


def test_missing_model_folder(refused, tmp_path):
    line = refused("quickstart", f"run_dir={tmp_path / 'run'}", f"model={tmp_path / 'qwen'}")
    assert "no Hugging Face model folder (config.json is missing); check the key `model`" in line
    assert not (tmp_path / "run").exists()


def test_missing_checkpoint(refused, tmp_path):
    assert "no such checkpoint folder" in refused("export", tmp_path / "none", tmp_path / "out")


# -- corpora and indexes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oops", "line 2"),
        (json.dumps({k: v for k, v in NORM.items() if k != "text"}), "line 2: field 'text'"),
        (json.dumps(NORM | {"article_no": "many"}), "line 2: field 'article_no'"),
        ("[1, 2]", "line 2"),
    ],
)
def test_a_broken_line_of_a_corpus_names_file_line_and_field(refused, tmp_path, suffix, line, message):
    file = tmp_path / f"norms.{suffix}"
    text = f"{json.dumps(NORM, ensure_ascii=False)}\n{line}\n".encode()
    file.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    told = refused("index", "build", tmp_path / "index", "--corpus", file, "--encoder", "none")
    assert str(file) in told and message in told
    assert not (tmp_path / "index").exists()


def test_a_torn_or_false_gzip_file(refused, tmp_path):
    torn, false = tmp_path / "torn.jsonl.gz", tmp_path / "false.jsonl.gz"
    torn.write_bytes(gzip.compress(json.dumps(NORM).encode())[:40])
    false.write_text("no gzip")
    for file in (torn, false):
        assert str(file) in refused("index", "build", tmp_path / "i", "--corpus", file, "--encoder", "none")


def test_no_such_corpus_or_cases(refused, corpus, tmp_path):
    assert "does not exist" in refused("index", "build", tmp_path / "i", "--corpus", "nonsense")
    line = refused("index", "build", tmp_path / "i", "--corpus", corpus, "--cases", tmp_path / "none.jsonl")
    assert "none.jsonl" in line


def test_missing_index_names_the_command(refused, tmp_path):
    for command in (("retrieve", "刑法"), ("serve", "retrieval")):
        line = refused(*command, "--index", tmp_path / "no index")
        assert line.endswith(f"run `legal-rl index build '{tmp_path / 'no index'}'`")
    assert "no index here" in refused("index", "info", tmp_path / "none")


def test_damaged_index(refused, index, tmp_path):
    copy = tmp_path / "index"
    shutil.copytree(index, copy)
    with (copy / "articles.jsonl").open("a") as file:
        file.write("\n")
    for command in (("retrieve", "刑法", "--index"), ("serve", "retrieval", "--index"), ("index", "info")):
        assert "index is damaged, articles.jsonl was changed; run `legal-rl index build" in refused(*command, copy)
    (copy / "manifest.json").write_text("{")
    assert "damaged" in refused("index", "info", copy)


def test_an_index_is_asked(call, index):
    answer = call("retrieve", "刑法第264条", "--index", index, "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["evidence"][0]["id"] == NORM["id"]


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--as-of", "20xx"), "20xx"), (("--source", "rumour"), "'statute' or 'precedent'"), (("-k", "0"), "")],
)
def test_a_query_that_cannot_be_asked(refused, index, options, message):
    line = refused("retrieve", "盗窃", "--index", index, *options)
    assert "the query cannot be asked" in line and message in line


def test_port_in_use(index):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = shell("serve", "retrieval", "--index", index, "--port", port)
    line = f"error: port {port} on 127.0.0.1 is in use; stop the other server or choose another --port\n"
    assert (result.returncode, result.stderr) == (1, line)


# -- where results go -------------------------------------------------------------------------------------------------


def test_a_file_where_the_run_folder_should_be(refused, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        assert "choose another folder" in refused("quickstart", f"run_dir={place}")


def test_a_file_where_the_index_should_be(refused, corpus, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "index"):
        line = refused("index", "build", place, "--corpus", corpus, "--encoder", "none")
        assert str(place) in line
    assert (tmp_path / "file").read_text() == ""


def _rights_bind() -> None:
    """In the child: root, too, is refused by a folder's rights (capability 1, CAP_DAC_OVERRIDE, is given up)."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_read_only_folder(tmp_path):
    folder = tmp_path / "readonly"
    folder.mkdir(mode=0o555)
    result = shell("quickstart", f"run_dir={folder / 'run'}", preexec_fn=_rights_bind)
    line = f"error: {folder / 'run'}: permission denied; choose another folder or check its owner\n"
    assert (result.returncode, result.stderr) == (1, line)
    result = shell("index", "build", folder / "index", "--encoder", "none", preexec_fn=_rights_bind)
    assert result.returncode == 1 and result.stderr.count("\n") == 1 and str(folder) in result.stderr


def _small_files() -> None:
    """In the child: no file may grow over 64 bytes, the nearest thing to a full disk that needs no rights."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


@pytest.mark.parametrize("command", ["index", "quickstart"])
def test_a_disk_that_takes_no_more_leaves_nothing_half_written(corpus, tmp_path, command):
    place = tmp_path / "out"
    arguments: tuple[object, ...] = ("index", "build", place, "--corpus", corpus, "--encoder", "none")
    if command == "quickstart":
        arguments = ("quickstart", f"run_dir={place}")
    result = shell(*arguments, preexec_fn=_small_files, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("error: "), result.stderr
    assert not (place / "manifest.json").exists() and not (place / "config.yaml").exists()


# -- files of rollouts, questions and queries -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{oops\n", "1: "),
        (b'{"turns": 3}\n', "field 'turns'"),
        (b'{"turns": [], "nonsense": 1}\n', "field 'nonsense'"),
        (b"[1]\n", "1: "),
        (b"\xff\xfe\n", ""),
    ],
)
def test_a_broken_rollout_file(refused, tmp_path, content, message):
    file = tmp_path / "rollouts.jsonl"
    file.write_bytes(content)
    for command in (("trace", "view"), ("data", "inspect")):
        line = refused(*command, file)
        assert str(file) in line and message in line
    assert not file.with_suffix(".html").exists()


def test_missing_files_say_what_was_expected(refused, corpus, tmp_path):
    none = tmp_path / "none.jsonl"
    assert "no such file (rollouts as JSON Lines)" in refused("trace", "view", none)
    assert "no such file" in refused("data", "inspect", tmp_path)
    line = refused("eval", "retrieval", "--corpus", corpus, "--queries", none)
    assert line == f"error: {none}: no such file (queries with gold article ids)"


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize(("text", "message"), [("{oops\n", "line 1"), ('{"nonsense": 1}\n', "line 1")])
def test_a_broken_query_file(refused, corpus, tmp_path, suffix, text, message):
    file = tmp_path / f"queries.{suffix}"
    file.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    line = refused("eval", "retrieval", "--corpus", corpus, "--queries", file)
    assert str(file) in line and message in line


def test_seeds_need_finished_runs(refused, tmp_path):
    assert "finish that run first" in refused("eval", "seeds", tmp_path)
