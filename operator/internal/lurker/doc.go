// SPDX-License-Identifier: Apache-2.0

// Package lurker waits beside a scanner and uploads what it has found.
//
//	scanner runs ──► ended with exit code 0 ──► its file is uploaded ──► exit 0
//	     ▲  │
//	     │  ├─ failed, and is restarted (restartPolicy OnFailure)
//	     └──┘
//	        └─ failed for good (restartPolicy Never) ──► nothing is uploaded ──► exit 1
//
// The end of the scanner's log is stored beside the result if the operator gives a URL for it: of each failed run, and
// after the result of the successful one. Nothing waits for that longer than some seconds, and its errors are not fatal.
//
// The lurker watches its own pod, survives outages of the API server and of the storage, and gets a
// fresh upload URL from the operator when its first one has expired. It needs only the arguments of
// secureCodeBox: with another operator it runs without fresh URLs, and if it may not watch its pod, it
// polls.
package lurker
