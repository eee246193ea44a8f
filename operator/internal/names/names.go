// SPDX-License-Identifier: Apache-2.0

// Package names derives the names of everything that a Scan owns.
//
// The readable prefix is the one secureCodeBox uses; the hash behind it makes the name
// unique to the Scan's UID, so that a Scan made again under its old name has other
// children than the one before.
package names

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/scanyard/scanyard/apis/names"
)

// Job returns the name of the Job of one phase of a Scan.
//
// The prefix is for people ("scan-nightly"); role identifies the phase of a Scan (the job type, with the
// name of the hook for hooks), attempt its tries, from 1.
func Job(prefix string, scan types.UID, role string, attempt int) string {
	return names.Derive(prefix, string(scan), role, strconv.Itoa(attempt))
}

// HookAccess returns the name of the Role and RoleBinding that let one hook, which runs in another
// namespace, reach one Scan. The hook is given by its name or by its label value.
func HookAccess(hook string, scan types.UID) string {
	hook = LabelValue(hook)
	return names.Derive("hook-"+hook, string(scan), "access", hook)
}

// ScanAccess returns the name of the ServiceAccount of the parser and the hooks of one Scan, from the
// Scan's UID, or the name of its Role and RoleBinding, from the account's UID.
func ScanAccess(scan string, owner types.UID) string {
	return names.Derive("scan-"+scan, string(owner), "access")
}

// LabelValue returns the label value for the name of a hook, ScanType or Scan.
func LabelValue(name string) string { return names.LabelValue(name) }
