import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation

/// Providers that are processes of their own.
enum ServedSource {
    /// A provider whose process serves another source.
    static func provider(_ source: String, beside folder: String) throws -> any Provider {
        guard let cove = ProcessInfo.processInfo.environment["COVE_BINARY"] else {
            throw CommandFailure("COVE_BINARY is not set; run mount-scripts/test")
        }
        return try script("exec '\(cove)' provider serve '\(source)'", at: "\(folder).serve-\(UUID().uuidString)")
    }

    /// A provider whose process is a shell script.
    static func script(_ text: String, at path: String, state: String? = nil) throws -> any Provider {
        try program("#!/bin/sh\n\(text)\n", at: path, state: state)
    }

    /// A provider whose process is Python.
    static func python(_ text: String, at path: String, state: String? = nil) throws -> any Provider {
        try program("#!/usr/bin/python3\n\(text)\n", at: path, state: state)
    }

    private static func program(_ text: String, at path: String, state: String?) throws -> any Provider {
        try put(text, path)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
        return try ProviderFactory.make(source: "exec:\(path)", access: ProviderFactory.Access(state: state))
    }
}
