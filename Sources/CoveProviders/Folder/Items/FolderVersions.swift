internal import CoveCore

extension FileStatus {
    /// The lasting part of the remote id: an inode number is reused, together with its time of birth it is not.
    var identity: String { "\(inode):\(birthTime)" }

    /// Names the bytes.
    ///
    /// A symbolic link's target is part of it.
    func contentVersion(target: [UInt8]?) -> ContentVersion {
        switch kind {
        case .directory: .directory
        case .symbolicLink:
            ContentVersion("\(size):\(modificationTime):\(identity):\(stableHash(target ?? []))")
        case .file, .fifo, .socket, .characterDevice, .blockDevice:
            ContentVersion("\(size):\(modificationTime):\(identity)")
        }
    }

    /// Names everything else: the change time stands for the attributes that are not in it by themselves.
    var metadataVersion: MetadataVersion {
        let mode = String(permissions, radix: 8)
        return MetadataVersion(
            "\(mode):\(user):\(group):\(modificationTime):\(changeTime)"
        )
    }
}

/// FNV-1a in 16 hexadecimal digits: the same in every process, unlike `Hasher`.
func stableHash(_ bytes: [UInt8]) -> String {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    let digits = String(hash, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
}
