#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Firefox takes the screenshot. Its first start in an empty home may end before the page is drawn, so it gets two
# tries. A page that cannot be shown is no failure of the scan: the result is then an empty file.
#
#   sh /wrapper.sh -screenshot FILE [options] URL

SECONDS_EACH=${SCREENSHOT_SECONDS:-30}

FILE=
previous=
for argument in "$@"; do
	case $previous in
	-screenshot | --screenshot) FILE=$argument ;;
	esac
	previous=$argument
done
if [ -z "$FILE" ]; then
	echo "screenshooter: the arguments must start with -screenshot FILE" >&2
	exit 1
fi

# An earlier try of this container must not pass for this one's result.
rm -f "$FILE"
for try in 1 2; do
	timeout -k 5 "$SECONDS_EACH" firefox "$@" </dev/null
	code=$?
	[ -s "$FILE" ] && break
	echo "screenshooter: no screenshot after try $try, exit code $code" >&2
done
[ -e "$FILE" ] || : >"$FILE"
exit 0
