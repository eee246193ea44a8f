// SPDX-License-Identifier: Apache-2.0

// Package discover has the command that shows what auto-discovery would scan, and why not.
package discover
