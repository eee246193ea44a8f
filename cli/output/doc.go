// SPDX-License-Identifier: Apache-2.0

// Package output prints objects as kubectl does and through kubectl's printers: as
// tables that the API server makes, as JSON, YAML, JSONPath and names.
package output
