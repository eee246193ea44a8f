#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# WPScan ends with 1 to 4 where it could not scan (wrong options, an interrupt, an error of its own), and with
# 5 where the site has vulnerabilities, which is what a scan is for.

wpscan "$@"
code=$?
case $code in
1 | 2 | 3 | 4) exit "$code" ;;
esac
exit 0
