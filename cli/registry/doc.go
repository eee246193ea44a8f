// SPDX-License-Identifier: Apache-2.0

// Package registry has the commands of Registries: what there is, and jobs by hand.
package registry
