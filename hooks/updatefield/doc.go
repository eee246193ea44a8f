// SPDX-License-Identifier: Apache-2.0

// Package updatefield is a ReadAndWrite hook that puts one text into one field of every finding, for example to mark
// findings with the cluster they come from.
//
// What it decides: the field is named in the path syntax of lodash, which users of the JavaScript hook of this name
// know (`attributes.cluster`, `attributes.ip_addresses[0]`, `attributes["a.b"]`). The value is always text. Findings are
// always written back, also when there are none. Whatever is not on the path keeps its bytes.
package updatefield
