// SPDX-License-Identifier: Apache-2.0

// Package mapping makes the records of a Scan from the Scan and its findings.json, and a finding again from its record.
// It is pure: it has no clock, no client and no environment, so the same Scan always gives the same records with the same ids.
//
//	sequence 1        the summary
//	sequence i+2      finding number i of findings.json, from 0; what a filter passes over or what cannot be sent leaves a gap
//	sequence total+2  the closing record
//
// Nothing of a finding is lost. What the fields of a Result cannot say lies in extra_json as the bytes of findings.json:
// keys without a field, values of another type than the field, and texts that the field would change, such as a severity in lower case.
package mapping
