"""A DAG for Apache Airflow 2.4 or newer: each night it checks an archive, makes the report of the day, and deletes what
is old.

Each task is a command of Fumarole on the machine where Airflow's worker runs. `fumarole pipeline verify` ends with 1
where the archive is damaged, and then nothing is deleted.
"""

from datetime import UTC, datetime

from airflow import DAG
from airflow.operators.bash import BashOperator

ARCHIVE = "/srv/fumarole/archive"
DAY = "--since '{{ data_interval_start.isoformat() }}' --until '{{ data_interval_end.isoformat() }}'"

with DAG("fumarole_nightly", schedule="@daily", start_date=datetime(2026, 3, 1, tzinfo=UTC), catchup=False):
    verify = BashOperator(task_id="verify", bash_command=f"fumarole pipeline verify --archive {ARCHIVE}")
    report = BashOperator(
        task_id="report",
        bash_command=f"fumarole pipeline report --cold --archive {ARCHIVE} {DAY} --page report-{{{{ ds }}}}.html",
    )
    compact = BashOperator(task_id="compact", bash_command=f"fumarole pipeline compact --archive {ARCHIVE}")
    expire = BashOperator(
        task_id="expire",
        bash_command=f"fumarole pipeline expire --archive {ARCHIVE} --keep 'raw 30 days' --yes",
    )
    verify >> [report, compact] >> expire
