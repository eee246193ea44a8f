#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# kube-hunter prints its report; what it says about its work goes to standard error.

FILE=${RESULT_FILE:-/home/securecodebox/kube-hunter-results.json}

kube-hunter "$@" >"$FILE"
