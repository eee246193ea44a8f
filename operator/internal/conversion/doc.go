// SPDX-License-Identifier: Apache-2.0

// Package conversion converts settings between their two versions for the API server, and migrates stored settings to the newer version.
//
//	API server ──/convert──► NewHandler     on every replica, with no cache and no client
//	CRDs ◄──spec.conversion── Keeper        on every replica: the address of the handler, and the authority of its certificate
//	CRDs, settings ◄──────── Migration      on the leader, once
//
// What it decides:
//
//   - The operator reads and writes the stored version, so it does not need the handler, and its start waits for nothing.
//   - The CRD files of the chart do not configure conversion. The Keeper writes spec.conversion, and writes it again when
//     another client has changed it.
//   - If the cluster can migrate objects, the Migration creates a StorageVersionMigration and waits for its end. Otherwise
//     the Migration writes each object back unchanged, a few per second. An interrupted migration starts again and changes
//     no object twice. The old version is removed from status.storedVersions after the last object was written.
package conversion
