internal import CoveCore

/// An open file, closed with its owner.
struct Descriptor: ~Copyable {
    let raw: Int32

    init(_ raw: Int32) { self.raw = raw }

    deinit { System.close(raw) }
}
