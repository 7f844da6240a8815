from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.config.load import find_config, load, load_text
from edgebox.config.problems import ConfigError
from edgebox.config.schema import Config

Problems = Callable[[str], list[str]]


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text("")
    assert load(file) == Config()


def test_every_problem_is_told_at_once_with_its_line(problems_of: Problems) -> None:
    assert problems_of(
        """
[server]
lisen = ["*:80"]
[limits]
head_size = "16 KB"
[[site]]
hosts = [
  "*",
  "http://x",
]
root = "www"
[site.headers]
"X A" = "b"
"""
    ) == [
        'e.toml:3: server.lisen: unknown key; did you mean "listen"?',
        'e.toml:5: limits.head_size: "16 KB" has an unknown unit; did you mean "16 kB"?'
        " (write a number of bytes, or a text with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB)",
        'e.toml:9: site[0].hosts[1]: "http://x" must be a host alone, without scheme or path',
        "e.toml:11: site[0].root: no such directory: www",
        'e.toml:13: site[0].headers."X A": is no field name: letters, digits and - only'
        " (RFC 9110 §5.1)",
    ]


def test_each_site_has_lines_of_its_own(problems_of: Problems) -> None:
    told = problems_of('[[site]]\n[[site]]\nhosts = ["a.b"]\n[[site]]\n')
    assert told == ['e.toml:4: site[2].hosts[0]: "*" is in site[0] already']


def test_the_missing_catch_all_is_told_at_the_first_site(problems_of: Problems) -> None:
    (told,) = problems_of('\n[[site]]\nhosts = ["a.b"]\n')
    assert told.startswith("e.toml:2: site: no site takes the hosts that are left")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server]\nlisten = \n", "e.toml:2: not TOML: Invalid value (column 10)"),
        ("a = 1\n[b\n", "e.toml:2: not TOML: "),
        ("a = 1\na = 2\n", "e.toml:2: not TOML: this key or table is there twice"),
        ("[a]\n[b]\n[a]\n", "e.toml:3: not TOML: this key or table is there twice"),
        ('a = """\n\n', "e.toml:3: not TOML: "),
        (f"a = {'9' * 5000}", "e.toml:1: not TOML: "),
    ],
)
def test_text_that_is_no_toml_is_told_with_its_line(
    problems_of: Problems, text: str, told: str
) -> None:
    (problem,) = problems_of(text)
    assert problem.startswith(told)


def test_a_file_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "no.toml")
    assert str(error.value) == f"{tmp_path}/no.toml: cannot be read: No such file or directory"


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_octets_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_bytes(b"\n# \xe4\n")
    with pytest.raises(ConfigError, match=r"e.toml:2: is not UTF-8 text"):
        load(file)


def test_marks_and_line_ends_of_other_systems_are_read(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_bytes(b"\xef\xbb\xbf[server]\r\nname = 'x'\r\n")
    assert load(file).server.name == "x"


def test_relative_paths_count_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "www").mkdir()
    (tmp_path / "etc" / "e.toml").write_text(
        '[compression]\ndir = "cache"\n[log]\naccess = "access.log"\nerror = "/tmp/error.log"\n'
        '[[site]]\nroot = "../www/"\n[[site.route]]\naccel = "../www"\n'
        '[cache]\ndir = "answers"\n'
        '[upstream.a]\nservers = ["https://a"]\n[upstream.a.tls]\nca = "../ca.pem"\n'
    )
    (tmp_path / "ca.pem").touch()
    monkeypatch.chdir(tmp_path)
    config = load(Path("etc/e.toml"))
    assert config.compression.dir == f"{tmp_path}/etc/cache"
    assert config.log.access == f"{tmp_path}/etc/access.log"
    assert config.log.error == "/tmp/error.log"
    assert config.site[0].root == f"{tmp_path}/etc/../www"
    assert config.site[0].route[0].accel == f"{tmp_path}/etc/../www"
    assert config.cache.dir == f"{tmp_path}/etc/answers"
    assert config.upstream["a"].tls.ca == f"{tmp_path}/etc/../ca.pem"


def test_names_that_stand_for_no_path_stay(tmp_path: Path) -> None:
    config = load_text('[log]\naccess = "-"\nerror = "off"\n', str(tmp_path / "e.toml"))
    assert (config.log.access, config.log.error) == ("-", "off")
    text = '[log]\naccess = "syslog"\nerror = "syslog:[::1]"\n'
    config = load_text(text, str(tmp_path / "e.toml"))
    assert (config.log.access, config.log.error) == ("syslog", "syslog:[::1]")
    assert config.compression.dir is None
    assert config.site[0].root == ""
    assert config.cache.dir is None
    asked = '[cache]\ndir = ""\n[[site]]\n[[site.route]]\n[upstream.a]\nservers = ["http://a"]\n'
    config = load_text(asked, str(tmp_path / "e.toml"))
    assert config.cache.dir == ""
    assert config.site[0].route[0].accel == ""
    assert config.upstream["a"].tls.ca == ""


def test_problems_of_routes_and_upstreams_have_their_lines(problems_of: Problems) -> None:
    assert problems_of(
        """
[[site]]
[[site.route]]
path = "/"
upstream = "apps"
[[site.route]]
path = "api"
upstream = "http://a/b"
cahce = true
[upstream.app]
servers = [
  "http://127.0.0.1:8000",
  { url = "127.0.0.1:8001" },
  { url = "http://127.0.0.1:8002", wieght = 2 },
]
[upstream.app.health]
timeout = "0s"
"""
    ) == [
        'e.toml:5: site[0].route[0].upstream: there is no [upstream.apps]; did you mean "app"?',
        'e.toml:7: site[0].route[1].path: "api" must start with "/":'
        ' it is a prefix of paths, as "/api/"',
        'e.toml:8: site[0].route[1].upstream: "http://a/b" must end after the port:'
        " requests go there under their own path",
        'e.toml:9: site[0].route[1].cahce: unknown key; did you mean "cache"?',
        'e.toml:13: upstream.app.servers[1].url: "127.0.0.1:8001" is no address:'
        ' write "http://HOST:PORT", "https://HOST" or "unix:/path"',
        'e.toml:14: upstream.app.servers[2].wieght: unknown key; did you mean "weight"?',
        'e.toml:17: upstream.app.health.timeout: "0s" is too small: at least 1ms',
    ]


@pytest.mark.parametrize("upstream", ['[upstream.app]\nservers = "http://a"', "[upstream.app]"])
def test_an_upstream_that_is_wrong_is_still_there_to_be_named(
    problems_of: Problems, upstream: str
) -> None:
    (problem,) = problems_of(f'[[site]]\n[[site.route]]\nupstream = "app"\n{upstream}\n')
    assert problem.startswith("e.toml:4: upstream.app: lacks") or "is not a list" in problem


@pytest.mark.parametrize("upstream", ["upstream = 5", "upstream = [[]]", 'upstream = "app"'])
def test_what_is_no_upstream_at_all_is_told_of(problems_of: Problems, upstream: str) -> None:
    (problem,) = problems_of(f"{upstream}\n")
    assert problem == "e.toml:1: upstream: each of these has a name: write [upstream.NAME]"


def test_hosts_have_no_upper_case(problems_of: Problems, tmp_path: Path) -> None:
    config = load_text('[[site]]\nhosts = ["WWW.Example.com", "*"]\n', str(tmp_path / "e.toml"))
    assert config.site[0].hosts == ("www.example.com", "*")
    assert len(problems_of('[[site]]\nhosts = ["A.b", "*", "a.B"]\n')) == 1


def test_the_first_place_with_a_file_is_taken(tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    assert find_config(None, (first, second)) is None
    second.touch()
    assert find_config(None, (first, second)) == second
    first.touch()
    assert find_config(None, (first, second)) == first


def test_a_file_that_was_asked_for_is_taken_even_if_it_is_missing(tmp_path: Path) -> None:
    assert find_config(tmp_path / "no.toml") == tmp_path / "no.toml"


@pytest.mark.parametrize(
    "text",
    [
        r"""'site' = [{ root = "/a\nb\u001b[2J" }]""",
        r"""'limits' = { "\n" = 1, head_size = "5 \n" }""",
        r"""site = [{ headers = { "\r\n" = "\r\n" } }]""",
    ],
)
def test_a_problem_is_one_line_that_leaves_the_terminal_alone(
    problems_of: Problems, text: str
) -> None:
    told = problems_of(text)
    assert told
    assert all(problem.isprintable() for problem in told)


def test_a_place_that_may_not_be_looked_into_is_not_passed_over(tmp_path: Path) -> None:
    class Closed(type(tmp_path)):  # type: ignore[misc]
        """As /etc/edgebox is to a user who may not enter it; root may enter everything."""

        def exists(self) -> bool:
            raise PermissionError(13, "Permission denied")

    closed = Closed(tmp_path / "e.toml")
    assert find_config(None, (closed,)) is closed


WORDS = st.sampled_from(
    ["[server]", "[[site]]", "[site.headers]", "[[site.route]]", "[upstream.a]", "listen", "hosts",
     "servers", "url", "root", "=", '"*"', "[", "]",
     "{", "}", ",", "\n", '"""', "'", "#", "5", "auto", "x", ".", "1979-05-27", " "]
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(WORDS, max_size=12).map("".join) | st.text(max_size=20))
def test_any_text_gives_a_configuration_or_problems_that_name_the_file(text: str) -> None:
    problems = ["/e.toml: right"]
    try:
        load_text(text, "/e.toml")
    except ConfigError as error:
        problems = [str(problem) for problem in error.problems]
    assert problems
    assert all(problem.startswith("/e.toml:") for problem in problems)
