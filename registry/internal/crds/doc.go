// SPDX-License-Identifier: Apache-2.0

// Package crds asks a real API server, in its tests only, what it makes of Registries and jobs: those of the documentation are
// taken and get their defaults; those that can never work are refused with the name of the field, also where no webhook is.
package crds
