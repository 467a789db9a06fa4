public import Foundation

/// What a save gives a file besides its contents.
public struct DocumentAttributes: Sendable {
    /// Extended attributes, by their names without `user.`, such as `xdg.origin.url`.
    public var extendedAttributes: [String: Data] = [:]
    /// The lower twelve bits of the mode; nil keeps those of the file that is replaced.
    public var permissions: UInt16?
    /// The time of the last change; nil for now.
    public var modificationDate: Date?
    /// A picture of what is saved: a PNG file of at most 1024 by 1024 pixels, or any image that a thumbnailer here can read.
    ///
    /// Other devices show it without the document's bytes. What can't be read as an image is left out; the save goes on. A
    /// package has none.
    public var thumbnail: Data?

    /// Changes nothing.
    public init() {}
}
