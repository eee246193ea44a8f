// SPDX-License-Identifier: Apache-2.0

// Package conversion lets the API server have settings in either of their versions, and moves what is stored to the newer.
//
//	API server ──/convert──► NewHandler     on every replica, with no cache and no client
//	CRDs ◄──spec.conversion── Keeper        on every replica: where, and which authority to trust
//	CRDs, settings ◄──────── Migration      on the leader, once
//
// What it decides:
//
//   - Nothing of ours needs the handler: the operator reads and writes the stored version. So it can be away, and while
//     it starts it waits for nothing.
//   - The CRD files of the chart say nothing about conversion. The Keeper writes it, and writes it again when somebody
//     else has changed it.
//   - Where the cluster migrates by itself, the Migration asks the cluster, and waits for a while. Else
//     the Migration puts each object back unchanged, a few a second. What was interrupted begins anew and finds nothing
//     to do for the objects that are done. Only when all are, the old version goes from status.storedVersions.
package conversion
