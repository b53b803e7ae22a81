"""Publish a message repeatedly, list the schedules, and delete the schedule.

    .venv/bin/python examples/schedules.py --name report --cron '0 7 * * MON-FRI' --zone Europe/Berlin 'make the report'
    .venv/bin/python examples/schedules.py --name pulse --every 60 beat
    .venv/bin/python examples/schedules.py
    .venv/bin/python examples/schedules.py --name pulse --delete

Each time has exactly one message, also when the broker was down then. Lists all schedules at the end.
"""

import argparse
import sys

from miniqueue_client import Client, ClientError, Schedule


def describe(schedule: Schedule) -> str:
    rule = f"{schedule.cron} {schedule.zone}" if schedule.cron else f"every {schedule.every_seconds:g} s"
    return f"{schedule.name}: {rule}, to {schedule.topic}, next at {schedule.next_at:%Y-%m-%d %H:%M:%S} UTC"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--name", help="of the schedule")
    parser.add_argument("--cron", help="minute, hour, day, month, weekday")
    parser.add_argument("--zone", help="where the expression is meant")
    parser.add_argument("--every", type=float, help="instead of an expression: seconds from one message to the next")
    parser.add_argument("--delete", action="store_true", help="end the schedule")
    parser.add_argument("message", nargs="?")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    with Client(f"redis://{options.host}:{options.port}") as client:
        if options.delete:
            client.delete_schedule(options.name)
        elif options.message is not None:
            rule = {"cron": options.cron, "zone": options.zone, "every_seconds": options.every}
            client.set_schedule(options.name, options.topic, options.message, **rule)
        for schedule in client.schedules():
            print(describe(schedule))


if __name__ == "__main__":
    try:
        main()
    except ClientError as error:
        sys.exit(str(error))
