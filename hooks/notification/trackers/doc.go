// SPDX-License-Identifier: Apache-2.0

// Package trackers opens issues: in GitHub, GitLab and Jira, and cards in Trello.
//
// Each file is one tracker. An issue ends with a marker or has a label that names its finding, so that a finding has one issue over
// all runs; GitHub and GitLab read these through one list of issues and close what is fixed. Trello cannot detect a repetition.
package trackers
