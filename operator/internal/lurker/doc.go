// SPDX-License-Identifier: Apache-2.0

// Package lurker waits beside a scanner and uploads what it has found.
//
//	scanner runs ──► ended with exit code 0 ──► its file is uploaded ──► exit 0
//	     ▲  │
//	     │  ├─ failed, and is restarted (restartPolicy OnFailure)
//	     └──┘
//	        └─ failed for good (restartPolicy Never) ──► nothing is uploaded ──► exit 1
//
// The end of the scanner's log is stored beside the result where the operator says where to: of each run that has failed, and
// after the result of the one that ended well. Nothing waits for that longer than some seconds, and nothing fails by it.
//
// It looks at its own pod by watch, survives outages of the API server and of the
// storage, and gets a fresh upload URL from the operator when its first has expired.
// It needs nothing beyond the arguments of secureCodeBox: with another operator it
// runs without the fresh URLs, and where it may not watch its pod, it asks for it.
package lurker
