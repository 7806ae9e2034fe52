#!/bin/sh
# Debian's packages for the tests that need more than Python: a browser, Coq with Flocq, PostgreSQL.
# Exit status 1 when something stays missing; the tests that need it are then skipped and say so.
set -u

missing=""
command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null ||
    command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
    missing="chromium-headless-shell"
command -v coqc >/dev/null || missing="$missing coq"
ls /usr/lib/ocaml/coq/user-contrib/Flocq >/dev/null 2>&1 || missing="$missing libcoq-flocq"
command -v pg_virtualenv >/dev/null && ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ||
    missing="$missing postgresql"
[ -z "$missing" ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Not installed:" $missing "(as root, on Debian: apt-get install" $missing")."
    exit 1
fi

echo "Installing" $missing "with apt-get, for the whole machine (a minute, once) ..."
apt="env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300"
log=$(mktemp)
if $apt update >"$log" 2>&1; then
    # The browser without windows needs a third of the time for a page, but older releases have none.
    apt-cache show chromium-headless-shell >/dev/null 2>&1 ||
        missing=$(echo "$missing" | sed s/chromium-headless-shell/chromium/)
    if $apt install -y --no-install-recommends $missing >>"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
fi
tail -n 5 "$log"
echo "apt-get could not install" $missing"; the tests that need them are skipped (log: $log)."
exit 1
