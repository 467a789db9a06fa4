internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Glibc

/// The operations on the hidden tree of versions, which is read and never written to.
extension Request {
    /// Serves a request for a node of the tree.
    consuming func lookup(hidden parent: HiddenNode, _ name: [UInt8]) {
        let engine = begin()
        if engine.seesPart(caller) { return fail(.noSuchEntry) }
        do throws(Errno) {
            reply(entry: try engine.lookupHidden(parent, name), isCached: false)
        } catch {
            fail(error)
        }
    }

    /// The tree itself, which is in no listing of the root.
    consuming func lookupHiddenTree() {
        let engine = begin()
        if engine.seesPart(caller) { return fail(.noSuchEntry) }
        do throws(Errno) {
            reply(entry: try engine.hiddenAttributes(of: .top), isCached: false)
        } catch {
            fail(error)
        }
    }

    consuming func getattr(hidden node: HiddenNode) {
        let wantsBirth = Hooks.wantsBirth
        let engine = begin()
        do throws(Errno) {
            var attributes = try engine.hiddenAttributes(of: node)
            attributes.mayChangeUnseen = true
            if wantsBirth { reply(allOf: attributes) } else { reply(attributes: attributes) }
        } catch {
            fail(error)
        }
    }

    consuming func open(hidden node: HiddenNode, flags: Int32) {
        let engine = begin()
        if engine.hides(node, from: caller) { return fail(.accessDenied) }
        do throws(Errno) {
            try engine.openHidden(node, flags: flags)
            _ = replyOpen(backing: nil)
        } catch {
            fail(error)
        }
    }

    consuming func read(hidden node: HiddenNode, offset: Int64, count: Int) {
        let engine = begin()
        let buffer = ThreadBuffer.bytes(count)
        do throws(Errno) {
            let count = try engine.readHidden(node, offset: offset, into: buffer)
            reply(bytes: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        } catch {
            fail(error)
        }
    }

    /// There are no extended attributes.
    consuming func getxattrHidden() {
        _ = begin()
        fail(.noData)
    }

    /// There are no extended attributes.
    consuming func listxattrHidden(limit: Int) {
        _ = begin()
        reply(value: [], limit: limit)
    }

    /// Answers what needs no more than an answer, such as the end of an open file's use.
    consuming func finishHidden() {
        _ = begin()
        succeed()
    }

    /// Answers whatever would change something.
    consuming func refuseHidden() {
        _ = begin()
        fail(.readOnly)
    }
}
