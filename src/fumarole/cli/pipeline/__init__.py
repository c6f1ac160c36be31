"""The commands `fumarole pipeline …`, one file each."""

from fumarole.cli.pipeline import (
    balance,
    compact,
    demo,
    enrich,
    gaps,
    replay,
    report,
    rollup,
    run,
    sql,
    traffic,
    verify,
    whatif,
)

COMMANDS = (
    *(replay.replay, verify.verify, run.pipeline_run, rollup.rollup, enrich.enrich, gaps.gaps, traffic.traffic),
    *(balance.balance, whatif.whatif, sql.sql, report.report, demo.demo, compact.compact),
)
