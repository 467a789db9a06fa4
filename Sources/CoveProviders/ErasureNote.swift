internal import CoveCore

/// What is left in the root when everything was erased.
enum ErasureNote {
    /// The hidden name of the note.
    static let name = FileName(unchecked: Array(".cove-erased".utf8))
    /// A longer one is none.
    static let greatestSize = 500

    /// True for the hidden names in a root that go with all else.
    static func isOver(_ name: [UInt8]) -> Bool {
        FileName(unchecked: name).isReserved && name != self.name.bytes
    }
}
