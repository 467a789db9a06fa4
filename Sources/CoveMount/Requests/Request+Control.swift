internal import CLinux
internal import CoveCore
internal import CoveEngine

/// The operation ioctl(2), as far as it asks for or sets the flags of chattr(1).
extension Request {
    /// The calls of ioctl_fs(2) as they come: the kernel has read what was given and checked who may set anything.
    private enum Control {
        /// The flags as a number of four bytes, whatever the size that the call's number names.
        case flags
        /// `struct fsxattr`, of which only flags are kept.
        case attributes

        var size: Int { self == .flags ? 4 : MemoryLayout<fsxattr>.size }
    }

    /// Answers ENOTTY to all other calls.
    consuming func ioctl(_ id: ItemID, _ command: UInt32, _ input: UnsafeRawBufferPointer, room: Int) {
        switch command {
        case cove_get_flags: tellFlags(of: id, .flags, room: room)
        case cove_get_attributes: tellFlags(of: id, .attributes, room: room)
        case cove_set_flags: setFlags(of: id, .flags, input)
        case cove_set_attributes: setFlags(of: id, .attributes, input)
        default: fail(.noSuchControl)
        }
    }

    private consuming func tellFlags(of id: ItemID, _ control: Control, room: Int) {
        guard room >= control.size else { return fail(.invalidArgument) }
        let engine = begin()
        do throws(Errno) {
            let flags = try engine.fileFlags(id, caller)
            switch control {
            case .flags: reply(control: flags.rawValue)
            case .attributes:
                var attributes = fsxattr()
                if flags.contains(.noDump) { attributes.fsx_xflags |= UInt32(FS_XFLAG_NODUMP) }
                if flags.contains(.noAccessTime) { attributes.fsx_xflags |= UInt32(FS_XFLAG_NOATIME) }
                reply(control: attributes)
            }
        } catch {
            fail(error)
        }
    }

    private consuming func setFlags(of id: ItemID, _ control: Control, _ input: UnsafeRawBufferPointer) {
        guard input.count >= control.size else { return fail(.invalidArgument) }
        var flags = FileFlags()
        switch control {
        case .flags: flags = FileFlags(rawValue: input.loadUnaligned(as: UInt32.self))
        case .attributes:
            let attributes = input.loadUnaligned(as: fsxattr.self)
            let isNoDump = attributes.fsx_xflags & UInt32(FS_XFLAG_NODUMP) != 0
            let isNoAccessTime = attributes.fsx_xflags & UInt32(FS_XFLAG_NOATIME) != 0
            let others = attributes.fsx_xflags & ~UInt32(FS_XFLAG_NODUMP | FS_XFLAG_NOATIME)
            guard others == 0, attributes.fsx_projid == 0, attributes.fsx_extsize == 0, attributes.fsx_cowextsize == 0
            else { return fail(.notSupported) }
            if isNoDump { flags.insert(.noDump) }
            if isNoAccessTime { flags.insert(.noAccessTime) }
        }
        let wanted = flags
        coordinated(.change(id)) { engine, caller throws(Errno) in
            try engine.setFileFlags(id, wanted, caller)
        } reply: { request, _ in
            request.succeedControl()
        }
    }
}
