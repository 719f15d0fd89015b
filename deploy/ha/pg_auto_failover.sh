#!/bin/sh
# pg_auto_failover: a monitor and two nodes. `pg_auto_failover.sh monitor` on one machine, `pg_auto_failover.sh node NAME` on each of the others.
# Run it as the user postgres. The addresses come from the environment; those below are an example.
set -eu
: "${MONITOR_HOST:=10.0.0.21}" "${MONITOR_PORT:=5432}" "${NODE_HOST:=10.0.0.11}" "${NODE_PORT:=5432}"
: "${PGDATA:=/var/lib/postgresql/tenure}" "${PG_CTL:=/usr/lib/postgresql/15/bin/pg_ctl}" "${AUTH:=scram-sha-256}"
export PGDATA

case "${1:-}" in
monitor)
  if [ ! -d "$PGDATA" ]; then
    pg_autoctl create monitor --pgctl "$PG_CTL" --pgdata "$PGDATA" --pgport "$MONITOR_PORT" --hostname "$MONITOR_HOST" --auth "$AUTH" --no-ssl
    # A primary that is gone is noticed within seconds. The monitor then waits for primary_demote_timeout (30 s), in which a primary that
    # was only cut off stops itself: that is most of the gap. Milliseconds.
    printf 'pgautofailover.%s\n' 'health_check_period = 1000' 'health_check_timeout = 1000' 'health_check_max_retries = 2' \
      'health_check_retry_delay = 500' 'node_considered_unhealthy_timeout = 5000' >>"$PGDATA/postgresql.conf"
  fi
  ;;
node)
  # number-sync-standbys is 0 for two nodes: commits wait for the standby while it is there, and go on without it when it is not.
  [ -d "$PGDATA" ] || pg_autoctl create postgres --pgctl "$PG_CTL" --pgdata "$PGDATA" --pgport "$NODE_PORT" \
    --hostname "$NODE_HOST" --name "$2" --dbname tenure --auth "$AUTH" --no-ssl \
    --monitor "postgres://autoctl_node@$MONITOR_HOST:$MONITOR_PORT/pg_auto_failover?sslmode=prefer"
  ;;
*)
  echo "usage: pg_auto_failover.sh monitor | node NAME" >&2
  exit 64
  ;;
esac
exec pg_autoctl run --pgdata "$PGDATA"
