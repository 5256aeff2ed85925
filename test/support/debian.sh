#!/bin/sh
# debian.sh SUITE COMMAND...: run COMMAND on HEAD of this tree in a bare root of that Debian, which has the compiler,
# PostgreSQL and client tools of its release: bookworm 15, trixie 17, forky 18; and Ubuntu's noble has 16, if the keys of
# its archive are here (package ubuntu-keyring).
#   test/support/debian.sh forky ./run test
# Needs root and mmdebstrap. The root is kept as build/debian/SUITE.tar, and unpacked anew for each command. What the
# command needs, it installs: HTTPS certificates are those of this machine. If it fails, its logs, and the history of an
# invalid chaos run, are in build/debian/SUITE.failed.
set -eu
[ $# -gt 1 ] || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
suite=$1
shift
top=$(cd "$(dirname "$0")/../.." && pwd)
tar=$top/build/debian/$suite.tar failed=$top/build/debian/$suite.failed
[ "$(id -u)" = 0 ] || { echo "debian: needs root" >&2; exit 2; }
command -v mmdebstrap >/dev/null || { echo "debian: please install mmdebstrap" >&2; exit 2; }
components='' mirror=''
if [ "$suite" = noble ]; then components=--components=main,universe mirror=http://archive.ubuntu.com/ubuntu; fi
if [ ! -s "$tar" ]; then
    mkdir -p "$top/build/debian"
    # a mirror that stands still is good enough
    # shellcheck disable=SC2086  # each is one word, or none
    mmdebstrap --quiet --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' $components "$suite" "$tar.new.tar" $mirror >&2
    mv "$tar.new.tar" "$tar"
fi

root=$(mktemp -d)
clean() {
    if [ "${code:-0}" != 0 ]; then # for those who look for the reason
        rm -rf "$failed"
        mkdir "$failed"
        cp -r "$root/root/pgwork/build/log" "$root/root/pgwork/build/chaos/last" "$failed/" 2>/dev/null || :
    fi
    for p in /proc/[0-9]*; do # what still runs there
        case $(readlink "$p/root") in "$root"*) kill -9 "${p#/proc/}" 2>/dev/null || : ;; esac
    done
    for m in dev/shm proc dev; do umount -l "$root/$m" 2>/dev/null || :; done
    if ! mountpoint -q "$root/dev" && ! mountpoint -q "$root/proc"; then rm -rf "$root"; fi
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
tar -xf "$tar" -C "$root"
for d in etc/ssl/certs usr/local/share/ca-certificates; do # ca-certificates keeps these
    mkdir -p "$root/$d"
    cp /etc/ssl/certs/ca-certificates.crt "$root/$d/" 2>/dev/null || :
done
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev/shm"
mkdir "$root/root/pgwork"
git -C "$top" archive HEAD | tar -x -C "$root/root/pgwork"
code=0
env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    chroot "$root" /bin/sh -c 'cd /root/pgwork && exec "$@"' sh "$@" </dev/null &
wait $! || code=$? # in the background, so that a signal is heeded at once
exit $code
