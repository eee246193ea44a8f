// SPDX-License-Identifier: Apache-2.0

// Package crdcontract decides, in its tests only, whether the CRDs of the operator's
// chart are still those that clients of secureCodeBox know: testdata/contract.yaml
// says field by field what they rely on, and the CRDs may add to it but neither take
// away nor demand more. It needs no API server.
package crdcontract
