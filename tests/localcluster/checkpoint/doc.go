// SPDX-License-Identifier: Apache-2.0

// Package checkpoint keeps what a local cluster has stored at one moment, and brings the cluster back to it while its
// servers go on running. A cluster that starts costs two cores some seconds; a rollback costs a fraction of one.
//
// A rollback works below the API: it writes etcd's keys and the S3 server's files. The API server learns of it by its
// watches, as if other clients had made the changes; finalizers, webhooks and garbage collection have no part in it.
// Nothing else may use the cluster meanwhile, and no controller may run.
package checkpoint
