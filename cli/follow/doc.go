// SPDX-License-Identifier: Apache-2.0

// Package follow reports objects as they change, for any length of time. A watch that ends is begun
// again from a new list, with growing pauses while the API server is away, and the changes in between
// are reported then. Only errors that waiting cannot mend end it: rights that are missing from the
// start, a kind that is not served.
package follow
