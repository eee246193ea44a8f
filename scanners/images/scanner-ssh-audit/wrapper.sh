#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ssh-audit prints its result. It ends with 1 where it could not connect and with -1 (255) after an error of its
# own: then there is no result, and the scan fails. Any other code grades what was found.

FILE=${RESULT_FILE:-/home/securecodebox/ssh-audit.json}

# Not appended: a container that was killed and started again would leave two documents in one file.
ssh-audit.py -j "$@" >"$FILE"
code=$?
case $code in
1 | 255)
	rm -f "$FILE"
	exit "$code"
	;;
esac
exit 0
