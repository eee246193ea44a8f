// SPDX-License-Identifier: Apache-2.0

// Package engine has adapters do the steps of a worker: the SBOM of an image, the findings of an SBOM, a new database.
//
//	SBOM:     HEAD of each layer ─► grant at the proxy ─► a process of its own ─► documents, checked
//	Match:    the process of the database in use ─► findings and keys, checked
//	Database: HEAD ─► grant ─► download aside ─► diff ─► in use from now on; the old one ends its requests
//
// What it decides:
//
//   - What an adapter says of a file is checked: the file lies below the request's directory, and has the sum and the size.
//   - A layer may come from the cache only where this Registry's credentials may read its blob in this repository, now.
//   - Where the registry refused something, that is the reason of the request, whatever the adapter makes of it.
//   - A database that is older than the one in use is refused, and one that could not be had whole leaves the old one in use.
package engine
