// SPDX-License-Identifier: Apache-2.0

// Package chartcontract decides, in its tests only, whether what the charts render
// (charts/internal/golden) is what their users rely on.
//
// Of the operator's chart: whether it avoids what goes wrong with secureCodeBox's,
// namely addresses without a Service, rights that lack kinds or name groups that do not
// exist, and telemetry. Of the scanner charts: whether every ScanType, ParseDefinition,
// cascading rule and value has the names, commands and defaults that secureCodeBox's
// have, whether what is installed for all namespaces needs nothing that is in one, and
// whether a chart stays thin over the library.
package chartcontract
