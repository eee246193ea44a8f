// SPDX-License-Identifier: Apache-2.0

// Package bundle packs the objects and logs that a helper needs to see of an installation, without
// secrets. Objects are chosen by kind: Secrets, ConfigMaps and results are never read. All text is
// redacted before it is written:
//
//	values of environment variables      all of them; their names and sources stay
//	URLs                                 their query, where presigned URLs keep the
//	                                     signature, and user and password
//	arguments and parameters             the value of a flag or variable that is called
//	                                     like a password, token, key, cookie or header
//	logs                                 the same, in every line
//	annotations with whole objects       left out, as are managedFields
//
// Logs of scanners are left out, since they contain findings.
package bundle
