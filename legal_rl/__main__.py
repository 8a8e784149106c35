"""`python -m legal_rl`: the same as the `legal-rl` command, and independent of script shebangs (paths with spaces)."""

from legal_rl.cli import main

if __name__ == "__main__":
    main()
