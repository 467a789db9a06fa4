internal import CoveCore
internal import Glibc

/// Sets what travels beside the bytes.
struct MetadataWriter {
    /// False for a new file: there, what the file system can't keep is left out, as `capabilities` has announced.
    let isStrict: Bool
    let log: @Sendable (String) -> Void

    /// Sets all that is known on an open file; the modification time last, since the rest would change it.
    func apply(_ metadata: ItemMetadata, to file: Int32) throws(Errno) {
        let now = try System.status(file)
        try setOwner(metadata, now, file)
        if let permissions = metadata.permissions, permissions & 0o7777 != now.permissions {
            try allow { () throws(Errno) in try System.fchmod(file, permissions & 0o7777) }
        }
        if let attributes = metadata.extendedAttributes { setAttributes(attributes, file) }
        // To set what is set already would be a change to others.
        if let time = metadata.modificationTime, !isStrict || time != now.modificationTime {
            try allow { () throws(Errno) in try System.setModificationTime(file, time) }
        }
    }

    /// Sets what a symbolic link can have.
    func apply(_ metadata: ItemMetadata, toLink name: [UInt8], in directory: Int32) throws(Errno) {
        if geteuid() == 0, metadata.user != nil || metadata.group != nil {
            try allow { () throws(Errno) in
                try System.chownat(directory, name, user: metadata.user, group: metadata.group)
            }
        }
        if let time = metadata.modificationTime {
            try allow { () throws(Errno) in try System.setModificationTime(directory, name, time) }
        }
    }

    /// Only root can give files away; a member can at least keep the group.
    private func setOwner(_ metadata: ItemMetadata, _ now: FileStatus, _ file: Int32) throws(Errno) {
        let user = metadata.user == now.user ? nil : metadata.user
        let group = metadata.group == now.group ? nil : metadata.group
        if user == nil, group == nil { return }
        if geteuid() == 0 {
            try allow { () throws(Errno) in try System.fchown(file, user: user, group: group) }
        } else if let group {
            try? System.fchown(file, user: nil, group: group)
        }
    }

    private func setAttributes(_ attributes: [[UInt8]: [UInt8]], _ file: Int32) {
        let present = ItemReader.attributes(file) ?? [:]
        for name in present.keys where attributes[name] == nil { try? System.removeAttribute(file, name) }
        for (name, value) in attributes where name.starts(with: Array("user.".utf8)) && present[name] != value {
            do throws(Errno) { try System.setAttribute(file, name, value) } catch {
                log("attribute \(String(decoding: name, as: UTF8.self)) was left out: \(error)")
            }
        }
    }

    private func allow(_ body: () throws(Errno) -> Void) throws(Errno) {
        do throws(Errno) { try body() } catch {
            let isMissing = error == .notPermitted || error == .notSupported || error == .invalidArgument
            if isStrict || !isMissing { throw error }
            log("metadata was left out: \(error)")
        }
    }
}
