internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Glibc

/// The operations on open directories.
extension Request {
    consuming func opendir(_ id: ItemID) {
        let engine = begin()
        if HiddenNode.contains(id) {
            if engine.seesPart(caller) { return fail(.accessDenied) }
            _ = replyOpenDirectory(isCached: false, keepsListing: false)
            return
        }
        do throws(Errno) {
            switch try engine.openDirectory(id, caller) {
            case .now:
                finishOpenDirectory(id)
            case .later(let pending):
                park(on: pending) { request, result in
                    switch result {
                    case .success: request.finishOpenDirectory(id)
                    case .failure(let error): request.fail(error)
                    }
                }
            }
        } catch {
            fail(error)
        }
    }

    private consuming func finishOpenDirectory(_ id: ItemID) {
        let engine = connection.engine
        // Of the root some programs see a part, which is not to be kept for others, nor the whole for them.
        let isCached = id != .root || !engine.seesPart(caller)
        let keepsListing = connection.walkers.mayKeep(id, for: caller.thread)
        if !replyOpenDirectory(isCached: isCached, keepsListing: keepsListing) { engine.releaseDirectory(id) }
    }

    /// Fills one answer of `limit` bytes with the entries after the cookie.
    consuming func readdir(_ id: ItemID, after cookie: UInt64, limit: Int, plus: Bool) {
        let engine = begin()
        let buffer = ThreadBuffer.bytes(limit + FileName.maximumLength + 1)
        var listing = Listing(
            entries: UnsafeMutableRawBufferPointer(rebasing: buffer[..<limit]),
            name: UnsafeMutableRawBufferPointer(rebasing: buffer[limit...]),
            request: raw
        )
        do throws(Errno) {
            if let hidden = HiddenNode(id) {
                try engine.readHidden(hidden, after: cookie) { entry in
                    plus ? listing.append(plus: entry, isCached: false) : listing.append(entry)
                }
            } else {
                let thread = caller.thread
                let walkers = connection.walkers
                var detail = plus ? walkers.detail(of: id, for: thread, isFirst: cookie == 0) : .names
                try engine.readDirectory(id, after: cookie, plus: plus, caller) { entry in
                    guard plus else { return listing.append(entry) }
                    if entry.isUncached { return listing.append(plus: entry, isCached: false) }
                    if detail != .attributes, entry.attributes.kind != .directory {
                        guard listing.append(nameOf: entry) else { return false }
                        if detail == .attributesButOne {
                            detail = .attributes
                            walkers.noteLeftOut(of: id, for: thread)
                        }
                        return true
                    }
                    let isCached = entry.name.first != 0x2E || !engine.isUncachedName(entry.name)
                    return listing.append(plus: entry, isCached: isCached)
                }
            }
            reply(bytes: UnsafeRawBufferPointer(rebasing: listing.entries[..<listing.used]))
        } catch {
            fail(error)
        }
    }

    consuming func releasedir(_ id: ItemID) {
        let engine = begin()
        engine.releaseDirectory(id)
        succeed()
    }

    consuming func fsyncdir(_ id: ItemID) {
        let engine = begin()
        do throws(Errno) {
            try engine.syncDirectory(id)
            succeed()
        } catch {
            fail(error)
        }
    }
}

/// The answer to READDIR or READDIRPLUS under construction.
private struct Listing {
    let entries: UnsafeMutableRawBufferPointer
    /// Where each name gets the NUL that libfuse wants.
    let name: UnsafeMutableRawBufferPointer
    let request: fuse_req_t?
    var used = 0

    /// Adds an entry; false when it did not fit.
    mutating func append(_ entry: borrowing DirectoryEntry) -> Bool {
        var status = stat()
        status.st_ino = ino_t(entry.attributes.id.rawValue)
        status.st_mode = entry.attributes.kind.mode
        terminate(entry.name)
        let left = entries.count - used
        let cookie = off_t(truncatingIfNeeded: entry.cookie)
        let size = fuse_add_direntry(request, next, left, nameText, &status, cookie)
        guard size <= left else { return false }
        used += size
        return true
    }

    /// Adds an entry with its attributes, which counts as a lookup of it, except for `.` and `..`.
    mutating func append(plus entry: borrowing DirectoryEntry, isCached: Bool) -> Bool {
        let isNamed = entry.name != [0x2E] && entry.name != [0x2E, 0x2E]
        var parameters = fuse_entry_param(entry.attributes, isCached: isCached)
        if !isNamed { parameters.ino = 0 }
        return append(parameters, entry)
    }

    /// Adds an entry of which the kernel takes no more than name, number and kind.
    mutating func append(nameOf entry: borrowing DirectoryEntry) -> Bool {
        var parameters = fuse_entry_param()
        parameters.attr.st_ino = ino_t(entry.attributes.id.rawValue)
        parameters.attr.st_mode = entry.attributes.kind.mode
        return append(parameters, entry)
    }

    private mutating func append(_ parameters: fuse_entry_param, _ entry: borrowing DirectoryEntry) -> Bool {
        var parameters = parameters
        terminate(entry.name)
        let left = entries.count - used
        let cookie = off_t(truncatingIfNeeded: entry.cookie)
        let size = fuse_add_direntry_plus(request, next, left, nameText, &parameters, cookie)
        guard size <= left else { return false }
        used += size
        return true
    }

    private var next: UnsafeMutablePointer<CChar>? {
        entries.baseAddress.map { ($0 + used).assumingMemoryBound(to: CChar.self) }
    }

    private var nameText: UnsafePointer<CChar>? {
        name.baseAddress.map { UnsafePointer($0.assumingMemoryBound(to: CChar.self)) }
    }

    private func terminate(_ bytes: [UInt8]) {
        let count = min(bytes.count, name.count - 1)
        name.copyBytes(from: bytes.prefix(count))
        name[count] = 0
    }
}
