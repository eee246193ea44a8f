// SPDX-License-Identifier: Apache-2.0

// Package exceptions has the pages of exceptions: the list, one with what it holds for, a form to make one, which can show
// beforehand which findings it would match, and what can be done with one: extend it, end it, delete it.
//
//	finding ─► form, filled in ─► preview ─► FindingException ─► page ─► extend, end, delete
//
//	VEX document ─► what each statement would make ─► exceptions
//
// The API server decides about every change with the rights of the viewer; what it refuses is shown in the form.
package exceptions
