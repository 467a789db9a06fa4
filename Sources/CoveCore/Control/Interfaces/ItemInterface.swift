/// `io.cove.Item`: single items.
public enum ItemInterface {
    /// The interface's name.
    public static let name = "io.cove.Item"

    /// The interface's definition.
    public static let definition = """
        # Items of one Cove account. Each method takes path, or path_base64 for a path that is not UTF-8, relative to the
        # mount point; the empty path is its root.
        interface io.cove.Item

        # kind: file, directory, symlink, fifo, socket or device
        # state: dataless, partial, materialized or local
        type ItemStatus (
          path: string,
          path_base64: ?string,
          name: string,
          kind: string,
          state: string,
          isDirty: bool,
          isUploading: bool,
          isDownloading: bool,
          isPinned: bool,
          hasConflict: bool,
          size: int,
          localBytes: int,
          percent: float,
          modificationTime: float,
          permissions: int,
          user: int,
          group: int,
          itemID: int,
          documentID: string,
          contentVersion: ?string,
          remoteID: ?string,
          error: ?string
        )

        type Transfer (
          path: string,
          direction: (download, upload),
          doneBytes: int,
          totalBytes: int,
          bytesPerSecond: float
        )

        # Several items at once; failures says, by path, why others could not be told.
        method Status(paths: []string) -> (items: []ItemStatus, failures: [string]string)

        # Everything known of one item.
        method Info(path: ?string, path_base64: ?string) -> (item: ItemStatus)

        # A directory's items; one that was never listed is listed now. Long lists need more.
        method List(path: ?string, path_base64: ?string) -> (items: []ItemStatus)

        # Starts to fetch an item, or all below a directory. With wait it replies once all is there; with more it sends
        # the progress until then.
        method Download(path: ?string, path_base64: ?string, wait: ?bool) -> (progress: ?Transfer)

        # Drops local bytes that the cloud has too, of an item or all below a directory.
        method Evict(path: ?string, path_base64: ?string) -> (freedBytes: int)

        # Keeps an item, or all below a directory, on this disk.
        method Pin(path: ?string, path_base64: ?string) -> ()

        # Ends Pin.
        method Unpin(path: ?string, path_base64: ?string) -> ()

        # What happened; what to do. errno is set where a system call would have failed so.
        error Failed (message: string, errno: ?int, path: ?string, path_base64: ?string)

        """
}
