// SPDX-License-Identifier: Apache-2.0

// Package apiservices has kube-apiserver send requests for the served groups here: it makes and keeps an APIService for
// each. An APIService is made where nobody has the group; what belongs to a CRD or to another server is left alone, unless
// the administrator says otherwise. An APIService that carries the annotation reports.scanyard.io/managed: "true" is ours: what somebody's
// chart has reset is taken again, and the authorities to trust are kept current.
//
// Facts that the decisions rest on: a CRD makes kube-apiserver write an APIService without a service, labelled automanaged.
// While the label is there a controller undoes what others write, so the label has to go in the same write. An
// APIService whose server is gone blocks the deletion of every namespace, so there is none without our Service, none for
// a group that is switched off, and none after the mark on the Service that says that the release is about to go.
package apiservices
