public import Foundation

/// What a save gives a file besides its contents.
public struct DocumentAttributes: Sendable {
    /// Extended attributes, by their names without `user.`, such as `xdg.origin.url`.
    public var extendedAttributes: [String: Data] = [:]
    /// The lower twelve bits of the mode; nil keeps those of the file that is replaced.
    public var permissions: UInt16?
    /// The time of the last change; nil for now.
    public var modificationDate: Date?

    /// Changes nothing.
    public init() {}
}
