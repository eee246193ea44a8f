// SPDX-License-Identifier: Apache-2.0

// Package chartcontract decides, in its tests only, whether what the operator's chart
// renders (charts/golden) avoids what goes wrong with secureCodeBox's chart: addresses
// without a Service, rights that lack kinds or name groups that do not exist, and
// telemetry.
package chartcontract
