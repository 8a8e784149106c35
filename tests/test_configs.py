"""Every file in configs/ loads, divides and fits; mistakes are one line that names file, key and fix."""

from pathlib import Path

import pytest
import yaml

from legal_rl.cluster.plan import plan_run
from legal_rl.config import CONFIG_FOLDER, RunConfig, load_config, write_config
from legal_rl.errors import ConfigError, LegalRLError

NAMES = sorted(path.stem for path in CONFIG_FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_config_loads_divides_and_fits(name):
    run = load_config(name)
    assert plan_run(run).problems == ()
    assert run.name == name
    assert run.grpo.group_size == 8 and run.grpo.kl_coef == 0.08


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_of_configs_names_every_file(name):
    assert f"`{name}.yaml`" in (CONFIG_FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_resolved_config_loads_again_unchanged(tmp_path):
    run = load_config("quickstart", ["seed=3", "grpo.learning_rate=2e-4"])
    write_config(run, tmp_path / "resolved.yaml")
    assert load_config(str(tmp_path / "resolved.yaml")) == run


def test_an_unknown_key_is_one_line_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"unknown key grpo\.group_sze; did you mean group_size\?"):
        load_config("quickstart", ["grpo.group_sze=8"])


def test_an_unknown_section_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("trainer: {}\n")
    with pytest.raises(ConfigError, match=f"{path}: unknown key trainer"):
        load_config(str(path))


def test_a_wrong_value_names_key_and_value():
    with pytest.raises(ConfigError, match=r"grpo\.learning_rate.*'fast'"):
        load_config("quickstart", ["grpo.learning_rate=fast"])


def test_a_batch_that_does_not_divide_is_refused_with_the_fix():
    with pytest.raises(ConfigError, match="33"):
        load_config("h20_4gpu", ["grpo.prompts_per_step=32"])


def test_trainer_gpus_and_ranks_must_agree():
    with pytest.raises(ConfigError, match="trainer_gpus"):
        load_config("h20_4gpu", ["grpo.n_gpus_per_node=2", "grpo.prompts_per_step=32"])


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2\n", "\x00"])
def test_files_that_are_no_mapping_are_refused(tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"bad\.yaml"):
        load_config(str(path))


def test_extends_merges_and_a_circle_is_refused(tmp_path):
    (tmp_path / "a.yaml").write_text(f"extends: {tmp_path / 'b.yaml'}\nseed: 5\n")
    (tmp_path / "b.yaml").write_text("seed: 1\nname: below\n")
    run = load_config(str(tmp_path / "a.yaml"))
    assert (run.seed, run.name) == (5, "below")
    (tmp_path / "b.yaml").write_text(f"extends: {tmp_path / 'a.yaml'}\n")
    with pytest.raises(ConfigError, match="extends itself"):
        load_config(str(tmp_path / "a.yaml"))


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match="quickstart"):
        load_config("quickstrat")


@pytest.mark.parametrize("override", ["seed", "=1", "seed=[1", "seed.deeper=1"])
def test_overrides_that_cannot_be_read_are_refused(override):
    with pytest.raises(ConfigError):
        load_config("quickstart", [override])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rewards.weights.foo=1", "rewards: weights.foo is no weight; there are acc, align, gain, query, eta"),
        ("rewards.preset=paper", "rewards: preset paper asks a reward judge; give rewards.judge.base_url and .model"),
        ("grpo.nnodes=2", "grpo.nnodes is 2, but layout.nodes is 1"),
        ("environment.system_prompt=nope", "nope: prompt file cannot be read"),
    ],
)
def test_what_would_fail_hours_later_is_refused_at_once(override, message):
    with pytest.raises(LegalRLError) as caught:
        load_config("quickstart", [override])
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_defaults_are_the_papers():
    run = RunConfig()
    assert (run.sft.learning_rate, run.sft.epochs) == (5e-6, 3)
    assert (run.grpo.learning_rate, run.grpo.group_size, run.grpo.kl_coef) == (1e-6, 8, 0.08)


def test_configs_hold_no_addresses_but_loopback():
    for path in CONFIG_FOLDER.glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert yaml.safe_load(text)
        assert "://" not in text.replace("http://127.0.0.1", "")


def test_config_folder_is_the_repositorys():
    assert Path(__file__).parent.parent / "configs" == CONFIG_FOLDER
