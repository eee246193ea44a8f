// SPDX-License-Identifier: Apache-2.0

// Package caches says of which namespaces the caches of the operator hold objects.
package caches

import "sigs.k8s.io/controller-runtime/pkg/cache"

// Namespaces is the choice of a cache that holds objects of these namespaces; an empty list means of all.
func Namespaces(names []string) (chosen map[string]cache.Config) {
	for _, name := range names {
		if chosen == nil {
			chosen = map[string]cache.Config{}
		}
		chosen[name] = cache.Config{}
	}
	return chosen
}
