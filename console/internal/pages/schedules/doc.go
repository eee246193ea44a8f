// SPDX-License-Identifier: Apache-2.0

// Package schedules has the pages of schedules: when each ran and runs next, how its last runs went, what keeps it from
// running, and what can be done with it: run now, suspend, resume.
package schedules
