// SPDX-License-Identifier: Apache-2.0

// Package follow reports objects as they change, for as long as it takes: a watch that
// ends is begun again from a new list, with pauses that grow while the API server is
// away, and what happened meanwhile is reported then. Only what waiting cannot mend ends it:
// rights that are missing from the start, a kind that is not served.
package follow
