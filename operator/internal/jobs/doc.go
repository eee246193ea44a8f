// SPDX-License-Identifier: Apache-2.0

// Package jobs builds the Jobs of a Scan: scanner, parser and hooks.
//
// Builders are pure functions of resolved values. The Jobs follow the wire contract of secureCodeBox,
// so that its images run in our Jobs; where this package differs, the line says so, and it differs
// for one of these reasons:
//
//   - names are derived, not random (package names);
//   - pods pass the restricted Pod Security level: seccomp RuntimeDefault everywhere;
//   - scanner containers get no API token, only the lurker does;
//   - labels, annotations and volumes of a ScanType's pod template are kept.
package jobs
