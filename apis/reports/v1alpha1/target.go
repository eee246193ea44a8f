// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "strings"

// Target is what the life of an image's findings is kept by: what its tag leads to, or its digest without one, for one platform, as
// "registry.example/shop/api:1.2 linux/amd64". It is empty for an image that does not say its repository.
func (r *ImageRef) Target() string {
	if r.Repository == "" {
		return ""
	}
	name := r.Repository
	if r.Registry != nil && r.Registry.Host != "" {
		name = r.Registry.Host + "/" + name
	}
	if r.Tag != "" {
		name += ":" + r.Tag
	} else {
		name += "@" + r.Digest
	}
	return strings.TrimSpace(name + " " + r.Platform)
}
